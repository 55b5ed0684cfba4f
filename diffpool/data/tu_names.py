"""Names of data sets of the TU collection, for suggestions and completion; any name is tried."""

_NAMES = """
    AIDS alchemy_full aspirin benzene BZR BZR_MD COIL-DEL COIL-RAG COLLAB COLORS-3 COX2 COX2_MD Cuneiform DBLP_v1 DD
    deezer_ego_nets DHFR DHFR_MD ENZYMES ER_MD ethanol Fingerprint FIRSTMM_DB FRANKENSTEIN github_stargazers IMDB-BINARY
    IMDB-MULTI KKI Letter-high Letter-low Letter-med malonaldehyde MCF-7 MCF-7H MOLT-4 MOLT-4H MSRC_21 MSRC_21C MSRC_9
    MUTAG Mutagenicity naphthalene NCI-H23 NCI-H23H NCI1 NCI109 OHSU OVCAR-8 OVCAR-8H P388 P388H PC-3 PC-3H Peking_1
    PROTEINS PROTEINS_full PTC_FM PTC_FR PTC_MM PTC_MR QM9 REDDIT-BINARY REDDIT-MULTI-12K REDDIT-MULTI-5K reddit_threads
    salicylic_acid SF-295 SF-295H SN12C SN12CH SW-620 SW-620H SYNTHETIC SYNTHETICnew Synthie toluene Tox21_AHR_training
    Tox21_AR-LBD_training Tox21_ARE_training Tox21_AR_training Tox21_ATAD5_training Tox21_ER-LBD_training
    Tox21_ER_training Tox21_HSE_training Tox21_MMP_training Tox21_PPAR-gamma_training Tox21_aromatase_training
    Tox21_p53_training TRIANGLES twitch_egos TWITTER-Real-Graph-Partial UACC257 UACC257H uracil Yeast YeastH ZINC_full
    ZINC_test ZINC_train ZINC_val
"""

KNOWN = tuple(_NAMES.split())
