"""Write the files of this folder: graphs.jsonl, new.jsonl and molecules.csv.

The graphs are generated. Each one is an office: nodes are people, labeled with their department, and edges connect
people who work together. Is the office organized in departments, or do people work across them? An office that works
across departments is one with departments whose edges were rewired; everyone keeps the number of colleagues.

The molecules are the first 500 with 8 to 30 heavy atoms in the open database of the National Cancer Institute, which
RDKit contains. `logp` is the octanol-water partition coefficient as computed by RDKit (Crippen's method), and
`lipophilic` tells whether it is at least 2. Needs RDKit and NetworkX.
"""

import csv
import json
from pathlib import Path

import networkx as nx
import numpy as np

HERE = Path(__file__).parent
DEPARTMENTS = ("sales", "design", "support", "research", "finance")


def office(seed: int) -> tuple[nx.Graph, list[str], str]:
    """A graph, the department of every node, and the class."""
    rng = np.random.default_rng(seed)
    label = "across" if seed % 2 else "departments"
    sizes = rng.integers(4, 9, size=rng.integers(3, 6))
    graph = nx.random_partition_graph(sizes.tolist(), 0.5, 0.06, seed=seed)
    if label == "across":
        swaps = graph.number_of_edges() // 2
        nx.double_edge_swap(graph, swaps, max_tries=100 * swaps, seed=seed)
    chosen = rng.permutation(DEPARTMENTS)[: len(sizes)]
    return graph, np.repeat(chosen, sizes).tolist(), label


def write_offices(path: Path, seeds: range) -> None:
    with path.open("w") as file:
        for number, seed in enumerate(seeds, 1):
            graph, departments, label = office(seed)
            line = {
                "id": f"{path.stem}-{number}",
                "node_labels": departments,
                "edges": sorted(sorted(edge) for edge in graph.edges),
                "label": label,
            }
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def write_molecules(path: Path, count: int) -> None:
    from rdkit import Chem, RDConfig
    from rdkit.Chem.Crippen import MolLogP

    source = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi")
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["id", "smiles", "logp", "lipophilic"])
        for smiles, number in map(str.split, source.read_text().splitlines()):
            molecule = Chem.MolFromSmiles(smiles) if "." not in smiles else None
            if count and molecule is not None and 8 <= molecule.GetNumHeavyAtoms() <= 30:
                logp = MolLogP(molecule)
                table.writerow(
                    [f"NSC{number}", smiles, f"{logp:.2f}", "yes" if logp >= 2 else "no"]
                )
                count -= 1


def main(folder: Path = HERE) -> None:
    write_offices(folder / "graphs.jsonl", range(250))
    write_offices(folder / "new.jsonl", range(250, 280))
    write_molecules(folder / "molecules.csv", count=500)


if __name__ == "__main__":
    main()
