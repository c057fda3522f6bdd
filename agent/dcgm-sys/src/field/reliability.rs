//! Fields about errors in memory: ECC counters, retired pages, remapped rows.

super::fields! {
    DEV_ECC_CURRENT 300 INT64 GPU Flag (3, 0) "ecc"
        ["DCGM_FI_DEV_ECC_CURRENT", "DCGM_FI_DEV_ECC_MODE"] "ECC mode now.";
    DEV_ECC_PENDING 301 INT64 GPU Flag (3, 0) "ecc_pending"
        ["DCGM_FI_DEV_ECC_PENDING"] "ECC mode after reboot.";
    DEV_ECC_SBE_VOL_TOTAL 310 INT64 GPU Count (3, 0) "ecc_sbe_volatile_total"
        ["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"] "SBE volatile, all locations.";
    DEV_ECC_DBE_VOL_TOTAL 311 INT64 GPU Count (3, 0) "ecc_dbe_volatile_total"
        ["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] "DBE volatile, all locations.";
    DEV_ECC_SBE_AGG_TOTAL 312 INT64 GPU Count (3, 0) "ecc_sbe_aggregate_total"
        ["DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"] "SBE aggregate (life), all locations.";
    DEV_ECC_DBE_AGG_TOTAL 313 INT64 GPU Count (3, 0) "ecc_dbe_aggregate_total"
        ["DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"] "DBE aggregate (life), all locations.";
    DEV_ECC_SBE_VOL_L1 314 INT64 GPU Count (3, 0) "ecc_sbe_volatile_l1"
        ["DCGM_FI_DEV_ECC_SBE_VOL_L1"] "SBE volatile L1.";
    DEV_ECC_DBE_VOL_L1 315 INT64 GPU Count (3, 0) "ecc_dbe_volatile_l1"
        ["DCGM_FI_DEV_ECC_DBE_VOL_L1"] "DBE volatile L1.";
    DEV_ECC_SBE_VOL_L2 316 INT64 GPU Count (3, 0) "ecc_sbe_volatile_l2"
        ["DCGM_FI_DEV_ECC_SBE_VOL_L2"] "SBE volatile L2.";
    DEV_ECC_DBE_VOL_L2 317 INT64 GPU Count (3, 0) "ecc_dbe_volatile_l2"
        ["DCGM_FI_DEV_ECC_DBE_VOL_L2"] "DBE volatile L2.";
    DEV_ECC_SBE_VOL_DEV 318 INT64 GPU Count (3, 0) "ecc_sbe_volatile_device"
        ["DCGM_FI_DEV_ECC_SBE_VOL_DEV"] "SBE volatile device memory.";
    DEV_ECC_DBE_VOL_DEV 319 INT64 GPU Count (3, 0) "ecc_dbe_volatile_device"
        ["DCGM_FI_DEV_ECC_DBE_VOL_DEV"] "DBE volatile device memory.";
    DEV_ECC_SBE_VOL_REG 320 INT64 GPU Count (3, 0) "ecc_sbe_volatile_register"
        ["DCGM_FI_DEV_ECC_SBE_VOL_REG"] "SBE volatile register file.";
    DEV_ECC_DBE_VOL_REG 321 INT64 GPU Count (3, 0) "ecc_dbe_volatile_register"
        ["DCGM_FI_DEV_ECC_DBE_VOL_REG"] "DBE volatile register file.";
    DEV_ECC_SBE_VOL_TEX 322 INT64 GPU Count (3, 0) "ecc_sbe_volatile_texture"
        ["DCGM_FI_DEV_ECC_SBE_VOL_TEX"] "SBE volatile texture.";
    DEV_ECC_DBE_VOL_TEX 323 INT64 GPU Count (3, 0) "ecc_dbe_volatile_texture"
        ["DCGM_FI_DEV_ECC_DBE_VOL_TEX"] "DBE volatile texture.";
    DEV_ECC_SBE_AGG_L1 324 INT64 GPU Count (3, 0) "ecc_sbe_aggregate_l1"
        ["DCGM_FI_DEV_ECC_SBE_AGG_L1"] "SBE aggregate L1.";
    DEV_ECC_DBE_AGG_L1 325 INT64 GPU Count (3, 0) "ecc_dbe_aggregate_l1"
        ["DCGM_FI_DEV_ECC_DBE_AGG_L1"] "DBE aggregate L1.";
    DEV_ECC_SBE_AGG_L2 326 INT64 GPU Count (3, 0) "ecc_sbe_aggregate_l2"
        ["DCGM_FI_DEV_ECC_SBE_AGG_L2"] "SBE aggregate L2.";
    DEV_ECC_DBE_AGG_L2 327 INT64 GPU Count (3, 0) "ecc_dbe_aggregate_l2"
        ["DCGM_FI_DEV_ECC_DBE_AGG_L2"] "DBE aggregate L2.";
    DEV_ECC_SBE_AGG_DEV 328 INT64 GPU Count (3, 0) "ecc_sbe_aggregate_device"
        ["DCGM_FI_DEV_ECC_SBE_AGG_DEV"] "SBE aggregate device memory.";
    DEV_ECC_DBE_AGG_DEV 329 INT64 GPU Count (3, 0) "ecc_dbe_aggregate_device"
        ["DCGM_FI_DEV_ECC_DBE_AGG_DEV"] "DBE aggregate device memory.";
    DEV_ECC_SBE_AGG_REG 330 INT64 GPU Count (3, 0) "ecc_sbe_aggregate_register"
        ["DCGM_FI_DEV_ECC_SBE_AGG_REG"] "SBE aggregate register file.";
    DEV_ECC_DBE_AGG_REG 331 INT64 GPU Count (3, 0) "ecc_dbe_aggregate_register"
        ["DCGM_FI_DEV_ECC_DBE_AGG_REG"] "DBE aggregate register file.";
    DEV_ECC_SBE_VOL_SRM 342 INT64 GPU Count (4, 1) "ecc_sbe_volatile_sram"
        ["DCGM_FI_DEV_ECC_SBE_VOL_SRM"] "SBE volatile SRAM.";
    DEV_ECC_DBE_VOL_SRM 343 INT64 GPU Count (4, 1) "ecc_dbe_volatile_sram"
        ["DCGM_FI_DEV_ECC_DBE_VOL_SRM"] "DBE volatile SRAM.";
    DEV_ECC_SBE_AGG_SRM 344 INT64 GPU Count (4, 1) "ecc_sbe_aggregate_sram"
        ["DCGM_FI_DEV_ECC_SBE_AGG_SRM"] "SBE aggregate SRAM.";
    DEV_ECC_DBE_AGG_SRM 345 INT64 GPU Count (4, 1) "ecc_dbe_aggregate_sram"
        ["DCGM_FI_DEV_ECC_DBE_AGG_SRM"] "DBE aggregate SRAM.";
    DEV_THRESHOLD_SRM 346 INT64 GPU Flag (4, 2) "ecc_threshold_sram"
        ["DCGM_FI_DEV_THRESHOLD_SRM", "DCGM_FI_DEV_SRAM_EXCEEDED"] "SRAM uncorrectable threshold passed.";
    DEV_BANKS_REMAP_ROWS_AVAIL_MAX 385 INT64 GPU Count (3, 0) "remap_rows_avail_max"
        ["DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", "DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX"]
        "Banks with all spare rows left.";
    DEV_BANKS_REMAP_ROWS_AVAIL_HIGH 386 INT64 GPU Count (3, 0) "remap_rows_avail_high"
        ["DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH", "DCGM_FI_DEV_BANK_REMAP_AVAIL_HIGH"]
        "Banks with most spare rows left.";
    DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL 387 INT64 GPU Count (3, 0) "remap_rows_avail_partial"
        ["DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL", "DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL"]
        "Banks with some spare rows left.";
    DEV_BANKS_REMAP_ROWS_AVAIL_LOW 388 INT64 GPU Count (3, 0) "remap_rows_avail_low"
        ["DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW"]
        "Banks with few spare rows left.";
    DEV_BANKS_REMAP_ROWS_AVAIL_NONE 389 INT64 GPU Count (3, 0) "remap_rows_avail_none"
        ["DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE"]
        "Banks with no spare row left.";
    DEV_RETIRED_SBE 390 INT64 GPU Count (3, 0) "retired_pages_sbe"
        ["DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL"] "Pages retired for SBE (pre-Ampere).";
    DEV_RETIRED_DBE 391 INT64 GPU Count (3, 0) "retired_pages_dbe"
        ["DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL"] "Pages retired for DBE (pre-Ampere).";
    DEV_RETIRED_PENDING 392 INT64 GPU Flag (3, 0) "retired_pages_pending"
        ["DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING"] "Page retirement pending.";
    DEV_UNCORRECTABLE_REMAPPED_ROWS 393 INT64 GPU Count (3, 0) "uncorrectable_remapped_rows"
        ["DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"]
        "Rows remapped, uncorrectable.";
    DEV_CORRECTABLE_REMAPPED_ROWS 394 INT64 GPU Count (3, 0) "correctable_remapped_rows"
        ["DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"]
        "Rows remapped, correctable.";
    DEV_ROW_REMAP_FAILURE 395 INT64 GPU Flag (3, 0) "row_remap_failure"
        ["DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"] "A row remap failed (RMA sign).";
    DEV_ROW_REMAP_PENDING 396 INT64 GPU Flag (3, 0) "row_remap_pending"
        ["DCGM_FI_DEV_ROW_REMAP_PENDING"] "Row remap pending a reset.";
}
