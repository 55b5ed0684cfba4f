"""Classify molecules: which of them can donate a hydrogen bond?

All molecules contain oxygen. Half of them have an O–H group (alcohols, acids, phenols and others), the other half do
not (ethers, esters, ketones and others). The features are those of `diffpool.data.molecules`. Needs RDKit:
pip install 'diffpool[molecules]'.
"""

import numpy as np

from diffpool import DiffPoolClassifier
from diffpool.data.molecules import from_smiles

GROUPS = (
    *("C", "CC", "CCC", "CCCC", "CCCCC", "CCCCCC", "CC(C)", "CC(C)C", "CCC(C)", "CC(C)(C)"),
    *("C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "C=CC", "CC=CC", "C#CC", "FCC", "ClCC", "BrCC"),
    *("FC(F)(F)C", "N#CC", "CSC", "CN(C)C", "c1ccccc1C"),
)
DONORS = ("O", "C(=O)O", "C1CCC(O)CC1", "C(=O)CO", "OCCO", "c1ccc(O)cc1", "c1ccc(O)c(OC)c1")
OTHERS = ("OC", "C(=O)OC", "C1CCC(=O)CC1", "C(=O)COC", "C(C)=O", "c1ccc(OC)cc1", "c1ccc(OC)c(OC)c1")

KNOWN = {
    "paracetamol": "CC(=O)Nc1ccc(O)cc1",
    "salicylic acid": "O=C(O)c1ccccc1O",
    "vanillin": "COc1cc(C=O)ccc1O",
    "diethyl ether": "CCOCC",
    "ethyl acetate": "CCOC(C)=O",
    "cyclohexanone": "O=C1CCCCC1",
}


def main(epochs: int = 40) -> float:
    smiles = [group + end for end in (*DONORS, *OTHERS) for group in GROUPS]
    y = np.repeat(["donor", "other"], len(smiles) // 2)
    graphs = from_smiles(smiles)
    print(graphs)

    order = np.random.default_rng(0).permutation(len(smiles))
    test, train = np.split(order, [len(order) // 4])
    model = DiffPoolClassifier(epochs=epochs, min_clusters=4, seed=0).fit(graphs[train], y[train])
    accuracy = model.score(graphs[test], y[test])
    print(f"accuracy on {len(test)} held-out molecules: {100 * accuracy:.1f}%")

    known = from_smiles(list(KNOWN.values()))
    probability = model.predict_proba(known)[:, list(model.classes_).index("donor")]
    for name, p in zip(KNOWN, probability, strict=True):
        print(f"  {name:15} donates a hydrogen bond: {100 * p:5.1f}%")
    return accuracy


if __name__ == "__main__":
    main()
