"""Compare DiffPool with a flat GraphSAGE of the same depth and width on generated data."""

import argparse
from pathlib import Path

from diffpool.cli.display import epochs_bar
from diffpool.data import embedded
from diffpool.experiments import settings_for, train_once
from diffpool.viz import draw_clusters


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("demo"))
    options.add_argument("--graphs", type=int, default=2000)
    options.add_argument("--epochs", type=int, default=40)
    chosen = options.parse_args()

    dataset = embedded(chosen.graphs)
    print(
        f"{dataset}\nAre both marks in the same community? Local views are the same in both classes.\n"
    )
    accuracy = {}
    for name in ("diffpool", "graphsage"):
        method = settings_for(name, "embedded", epochs=chosen.epochs)
        with epochs_bar(method) as watch:
            outcome = train_once(method, dataset, chosen.out / name, watch, overwrite=True)
        accuracy[name] = 100 * outcome.test.accuracy
        if name == "diffpool":
            picture = chosen.out / name / "clusters.png"
            draw_clusters(outcome.trained, dataset, picture, numbers=outcome.fold.test[:1])
    print(f"\ntest accuracy on {len(outcome.fold.test)} graphs")
    print(f"  DiffPool        {accuracy['diffpool']:5.1f} %")
    print(
        f"  flat GraphSAGE  {accuracy['graphsage']:5.1f} %   (the same depth and width, mean readout)"
    )
    print(f"the clusters that DiffPool found: {chosen.out / 'diffpool' / 'clusters.png'}")


if __name__ == "__main__":
    main()
