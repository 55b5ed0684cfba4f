// Bundles src/ into diffpool/explorer/assets/. The first line of each file has the hash of all sources, which
// tests/explorer/test_bundle.py compares with the sources.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync, copyFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../diffpool/explorer/assets";
const PACKAGES = ["sigma", "graphology", "graphology-utils", "events", "obliterator"];

function sources() {
  const files = readdirSync("src").map((name) => `src/${name}`);
  return [...files, "build.mjs", "package.json", "package-lock.json", "tsconfig.json"].sort();
}

const hash = createHash("sha256");
for (const file of sources()) hash.update(`${file}\n`).update(readFileSync(file));
const digest = hash.digest("hex");

const licenses = PACKAGES.map((name) => {
  const folder = `node_modules/${name}`;
  const file = readdirSync(folder).find((found) => /^licen[cs]e/i.test(found));
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}`;
}).join("\n\n");

const shared = { bundle: true, minify: true, write: false, target: "es2022", legalComments: "none", charset: "ascii" };
const script = await build({ ...shared, entryPoints: ["src/main.ts"], format: "iife" });
const live = await build({ ...shared, entryPoints: ["src/live.ts"], format: "iife" });
const style = await build({ ...shared, entryPoints: ["src/page.css"] });
writeFileSync(`${OUT}/page.js`, `/* sources ${digest}\n\nContains:\n\n${licenses} */\n${script.outputFiles[0].text}`);
writeFileSync(`${OUT}/live.js`, `/* sources ${digest} */\n${live.outputFiles[0].text}`);
for (const name of ["results.ts", "results.css"]) {
  const { outputFiles } = await build({ ...shared, entryPoints: [`src/${name}`], format: name.endsWith("ts") ? "iife" : undefined });
  writeFileSync(`${OUT}/${name.replace(/ts$/, "js")}`, `/* sources ${digest} */\n${outputFiles[0].text}`);
}
writeFileSync(`${OUT}/page.css`, `/* sources ${digest} */\n${style.outputFiles[0].text}`);
copyFileSync("node_modules/axe-core/axe.min.js", "../tests/explorer/axe.min.js");
