//! Fields about the host and about a device itself: identity, clocks, temperature, power, PCIe, utilisation, memory.

super::fields! {
    DRIVER_VERSION 1 TEXT NONE None (3, 0) "driver_version"
        ["DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"] "Driver version text, e.g. 580.x.";
    NVML_VERSION 2 TEXT NONE None (3, 0) "nvml_version"
        ["DCGM_FI_NVML_VERSION", "DCGM_FI_SYSTEM_NVML_VERSION"] "NVML library version text.";
    DEV_COUNT 4 INT64 NONE Count (3, 0) "device_count"
        ["DCGM_FI_DEV_COUNT", "DCGM_FI_SYSTEM_GPU_QUANTITY"] "Number of GPUs on the node.";
    CUDA_DRIVER_VERSION 5 INT64 NONE None (3, 0) "cuda_driver_version"
        ["DCGM_FI_CUDA_DRIVER_VERSION"] "NVML integer, major*1000+minor*10 (12.9 -> 12090).";
    DEV_NAME 50 TEXT COMPUTE_INSTANCE None (3, 0) "name"
        ["DCGM_FI_DEV_NAME", "DCGM_FI_DEV_GPU_NAME"] "Marketing name.";
    DEV_BRAND 51 TEXT GPU None (3, 0) "brand"
        ["DCGM_FI_DEV_BRAND", "DCGM_FI_DEV_GPU_BRAND"] "Brand text.";
    DEV_NVML_INDEX 52 INT64 GPU None (3, 0) "nvml_index"
        ["DCGM_FI_DEV_NVML_INDEX"] "NVML index of the GPU.";
    DEV_SERIAL 53 TEXT GPU None (3, 0) "serial_number"
        ["DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL"] "Board serial.";
    DEV_UUID 54 TEXT COMPUTE_INSTANCE None (3, 0) "uuid"
        ["DCGM_FI_DEV_UUID", "DCGM_FI_DEV_GPU_UUID"] "UUID.";
    DEV_MINOR_NUMBER 55 INT64 GPU None (3, 0) "minor_number"
        ["DCGM_FI_DEV_MINOR_NUMBER", "DCGM_FI_DEV_GPU_MINOR_NUMBER"] "N of /dev/nvidiaN.";
    DEV_PCI_BUSID 57 TEXT GPU None (3, 0) "pci_busid"
        ["DCGM_FI_DEV_PCI_BUSID", "DCGM_FI_DEV_PCI_BUS_ID"] "PCI bus id text.";
    DEV_PCI_COMBINED_ID 58 INT64 GPU None (3, 0) "pci_combined_id"
        ["DCGM_FI_DEV_PCI_COMBINED_ID"] "Device id * 65536 + vendor id.";
    DEV_PCI_SUBSYS_ID 59 INT64 GPU None (3, 0) "pci_subsys_id"
        ["DCGM_FI_DEV_PCI_SUBSYS_ID"] "PCI subsystem id.";
    DEV_CUDA_COMPUTE_CAPABILITY 63 INT64 GPU None (3, 0) "cuda_compute_capability"
        ["DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY", "DCGM_FI_CUDA_GPU_COMPUTE_CAPABILITY"]
        "Compute capability: major * 65536 + minor.";
    DEV_COMPUTE_MODE 65 INT64 GPU None (3, 0) "compute_mode"
        ["DCGM_FI_DEV_COMPUTE_MODE", "DCGM_FI_DEV_GPU_COMPUTE_MODE"] "NVML compute mode 0 to 3.";
    DEV_PERSISTENCE_MODE 66 INT64 GPU Flag (3, 0) "persistance_mode"
        ["DCGM_FI_DEV_PERSISTENCE_MODE", "DCGM_FI_DEV_GPU_PERSISTENCE_MODE"] "Persistence mode.";
    DEV_MIG_MODE 67 INT64 GPU Flag (3, 0) "mig_mode"
        ["DCGM_FI_DEV_MIG_MODE"] "MIG mode, current.";
    DEV_MIG_MAX_SLICES 69 INT64 GPU Count (3, 0) "mig_max_slices"
        ["DCGM_FI_DEV_MIG_MAX_SLICES"] "Max MIG slices.";
    DEV_CC_MODE 74 INT64 GPU Flag (3, 0) "cc_mode"
        ["DCGM_FI_DEV_CC_MODE"] "Confidential compute status.";
    DEV_ECC_INFOROM_VER 80 TEXT GPU None (3, 0) "ecc_inforom_version"
        ["DCGM_FI_DEV_ECC_INFOROM_VER", "DCGM_FI_DEV_INFOROM_ECC_VERSION"] "InfoROM ECC object version.";
    DEV_POWER_INFOROM_VER 81 TEXT GPU None (3, 0) "power_inforom_version"
        ["DCGM_FI_DEV_POWER_INFOROM_VER", "DCGM_FI_DEV_INFOROM_POWER_VERSION"] "InfoROM power object version.";
    DEV_INFOROM_IMAGE_VER 82 TEXT GPU None (3, 0) "inforom_image_version"
        ["DCGM_FI_DEV_INFOROM_IMAGE_VER", "DCGM_FI_DEV_INFOROM_IMAGE_VERSION"] "InfoROM image version.";
    DEV_INFOROM_CONFIG_CHECK 83 INT64 GPU None (3, 0) "inforom_config_checksum"
        ["DCGM_FI_DEV_INFOROM_CONFIG_CHECK", "DCGM_FI_DEV_INFOROM_CHECKSUM"] "InfoROM checksum.";
    DEV_INFOROM_CONFIG_VALID 84 INT64 GPU Flag (3, 0) "inforom_config_valid"
        ["DCGM_FI_DEV_INFOROM_CONFIG_VALID", "DCGM_FI_DEV_INFOROM_VALID"]
        "InfoROM contents verified; reads flash, so poll rarely.";
    DEV_VBIOS_VERSION 85 TEXT GPU None (3, 0) "vbios_version"
        ["DCGM_FI_DEV_VBIOS_VERSION"] "VBIOS version.";
    DEV_BAR1_TOTAL 90 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "bar1_total"
        ["DCGM_FI_DEV_BAR1_TOTAL"] "BAR1 total.";
    DEV_BAR1_USED 92 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "bar1_used"
        ["DCGM_FI_DEV_BAR1_USED"] "BAR1 used.";
    DEV_BAR1_FREE 93 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "bar1_free"
        ["DCGM_FI_DEV_BAR1_FREE"] "BAR1 free.";
    DEV_GPM_SUPPORT 94 INT64 GPU Flag (4, 0) "gpm_support"
        ["DCGM_FI_DEV_GPM_SUPPORT"] "GPM (NVML perf metrics) available.";
    DEV_SM_CLOCK 100 INT64 GPU Megahertz (3, 0) "sm_clock"
        ["DCGM_FI_DEV_SM_CLOCK"] "SM clock now.";
    DEV_MEM_CLOCK 101 INT64 GPU Megahertz (3, 0) "memory_clock"
        ["DCGM_FI_DEV_MEM_CLOCK"] "Memory clock now.";
    DEV_VIDEO_CLOCK 102 INT64 GPU Megahertz (3, 0) "video_clock"
        ["DCGM_FI_DEV_VIDEO_CLOCK"] "Video clock now.";
    DEV_APP_SM_CLOCK 110 INT64 GPU Megahertz (3, 0) "sm_app_clock"
        ["DCGM_FI_DEV_APP_SM_CLOCK"] "Application SM clock.";
    DEV_APP_MEM_CLOCK 111 INT64 GPU Megahertz (3, 0) "mem_app_clock"
        ["DCGM_FI_DEV_APP_MEM_CLOCK"] "Application memory clock.";
    DEV_CLOCK_THROTTLE_REASONS 112 INT64 GPU None (3, 0) "current_clocks_event_reasons"
        ["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"]
        "Clock event reasons, as [`clock_event`](crate::clock_event).";
    DEV_MAX_SM_CLOCK 113 INT64 GPU Megahertz (3, 0) "sm_max_clock"
        ["DCGM_FI_DEV_MAX_SM_CLOCK"] "Max SM clock.";
    DEV_MAX_MEM_CLOCK 114 INT64 GPU Megahertz (3, 0) "memory_max_clock"
        ["DCGM_FI_DEV_MAX_MEM_CLOCK"] "Max memory clock.";
    DEV_MAX_VIDEO_CLOCK 115 INT64 GPU Megahertz (3, 0) "video_max_clock"
        ["DCGM_FI_DEV_MAX_VIDEO_CLOCK"] "Max video clock.";
    DEV_MEMORY_TEMP 140 INT64 GPU Celsius (3, 0) "memory_temp"
        ["DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"] "Memory (HBM) temperature.";
    DEV_GPU_TEMP 150 INT64 GPU Celsius (3, 0) "gpu_temp"
        ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"] "GPU core temperature.";
    DEV_MEM_MAX_OP_TEMP 151 INT64 GPU Celsius (3, 0) "gpu_mem_max_op_temp"
        ["DCGM_FI_DEV_MEM_MAX_OP_TEMP", "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS"]
        "Memory max operating temperature (slowdown starts above it).";
    DEV_GPU_MAX_OP_TEMP 152 INT64 GPU Celsius (3, 0) "gpu_max_op_temp"
        ["DCGM_FI_DEV_GPU_MAX_OP_TEMP", "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS"] "GPU max operating temperature.";
    DEV_GPU_TEMP_LIMIT 153 INT64 GPU Celsius (4, 1) "gpu_temp_tlimit"
        ["DCGM_FI_DEV_GPU_TEMP_LIMIT", "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS"]
        "Margin: distance to the nearest slowdown threshold (T.Limit).";
    DEV_POWER_USAGE 155 DOUBLE GPU Watts (3, 0) "power_usage"
        ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"]
        "Power draw (NVML power usage; on recent GPUs an average over about a second).";
    DEV_TOTAL_ENERGY_CONSUMPTION 156 INT64 GPU Millijoules (3, 0) "total_energy_consumption"
        ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] "Energy since driver load.";
    DEV_POWER_USAGE_INSTANT 157 DOUBLE GPU Watts (3, 0) "power_usage_instant"
        ["DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"] "Instantaneous power draw.";
    DEV_SLOWDOWN_TEMP 158 INT64 GPU Celsius (3, 0) "slowdown_temp"
        ["DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"] "Slowdown threshold.";
    DEV_SHUTDOWN_TEMP 159 INT64 GPU Celsius (3, 0) "shutdown_temp"
        ["DCGM_FI_DEV_SHUTDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS"] "Shutdown threshold.";
    DEV_POWER_MGMT_LIMIT 160 DOUBLE GPU Watts (3, 0) "power_management_limit"
        ["DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS"] "Power limit as set.";
    DEV_POWER_MGMT_LIMIT_MIN 161 DOUBLE GPU Watts (3, 0) "power_management_limit_min"
        ["DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS"] "Lowest settable limit.";
    DEV_POWER_MGMT_LIMIT_MAX 162 DOUBLE GPU Watts (3, 0) "power_management_limit_max"
        ["DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS"] "Highest settable limit.";
    DEV_POWER_MGMT_LIMIT_DEF 163 DOUBLE GPU Watts (3, 0) "power_management_limit_default"
        ["DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS"] "Default limit.";
    DEV_ENFORCED_POWER_LIMIT 164 DOUBLE GPU Watts (3, 0) "enforced_power_limit"
        ["DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"]
        "Limit enforced after all limiters.";
    DEV_FABRIC_MANAGER_STATUS 170 INT64 GPU None (4, 0) "fabric_manager_status"
        ["DCGM_FI_DEV_FABRIC_MANAGER_STATUS"]
        "Fabric manager state, as [`FabricManagerStatus`](crate::module::FabricManagerStatus).";
    DEV_FABRIC_MANAGER_ERROR_CODE 171 INT64 GPU None (4, 0) "fabric_manager_failure_code"
        ["DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "DCGM_FI_DEV_FABRIC_MANAGER_ERROR"] "Fabric start failure code.";
    DEV_FABRIC_CLUSTER_UUID 172 TEXT GPU None (4, 0) "fabric_cluster_uuid"
        ["DCGM_FI_DEV_FABRIC_CLUSTER_UUID"] "Fabric cluster UUID.";
    DEV_FABRIC_CLIQUE_ID 173 INT64 GPU None (4, 0) "fabric_clique_id"
        ["DCGM_FI_DEV_FABRIC_CLIQUE_ID"] "Fabric clique id.";
    DEV_FABRIC_HEALTH_MASK 174 INT64 GPU None (4, 4) "fabric_health_mask"
        ["DCGM_FI_DEV_FABRIC_HEALTH_MASK"] "NVML fabric health mask.";
    DEV_FABRIC_HEALTH_SUMMARY 175 INT64 GPU None (4, 6) "fabric_health_summary"
        ["DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"] "NVML fabric health summary.";
    DEV_PSTATE 190 INT64 GPU None (3, 0) "pstate"
        ["DCGM_FI_DEV_PSTATE", "DCGM_FI_DEV_GPU_PSTATE"] "P-state 0 to 15, 0 = fastest.";
    DEV_FAN_SPEED 191 INT64 GPU Percent (3, 0) "fan_speed"
        ["DCGM_FI_DEV_FAN_SPEED"] "Fan speed; blank on passively cooled boards.";
    DEV_PCIE_TX_THROUGHPUT 200 INT64 GPU KilobytesPerSecond (3, 0) "pcie_tx_throughput"
        ["DCGM_FI_DEV_PCIE_TX_THROUGHPUT"] "PCIe TX over a ~20 ms NVML sample; 1009 preferred.";
    DEV_PCIE_RX_THROUGHPUT 201 INT64 GPU KilobytesPerSecond (3, 0) "pcie_rx_throughput"
        ["DCGM_FI_DEV_PCIE_RX_THROUGHPUT"] "PCIe RX, same; 1010 preferred.";
    DEV_PCIE_REPLAY_COUNTER 202 INT64 GPU Count (3, 0) "pcie_replay_counter"
        ["DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"] "PCIe replays; a counter.";
    DEV_GPU_UTIL 203 INT64 GPU Percent (3, 0) "gpu_utilization"
        ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"] "Share of time any kernel ran, 0 to 100.";
    DEV_MEM_COPY_UTIL 204 INT64 GPU Percent (3, 0) "mem_copy_utilization"
        ["DCGM_FI_DEV_MEM_COPY_UTIL"] "Share of time memory was read/written, 0 to 100.";
    DEV_ENC_UTIL 206 INT64 GPU Percent (3, 0) "enc_utilization"
        ["DCGM_FI_DEV_ENC_UTIL"] "Encoder busy.";
    DEV_DEC_UTIL 207 INT64 GPU Percent (3, 0) "dec_utilization"
        ["DCGM_FI_DEV_DEC_UTIL"] "Decoder busy.";
    DEV_XID_ERRORS 230 INT64 COMPUTE_INSTANCE None (3, 0) "xid_errors"
        ["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"]
        "Last XID number seen (an event field: value + its own timestamp).";
    DEV_PCIE_MAX_LINK_GEN 235 INT64 GPU None (3, 0) "pcie_max_link_gen"
        ["DCGM_FI_DEV_PCIE_MAX_LINK_GEN"] "PCIe max generation.";
    DEV_PCIE_MAX_LINK_WIDTH 236 INT64 GPU Count (3, 0) "pcie_max_link_width"
        ["DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"] "PCIe max width.";
    DEV_PCIE_LINK_GEN 237 INT64 GPU None (3, 0) "pcie_link_gen"
        ["DCGM_FI_DEV_PCIE_LINK_GEN"] "PCIe current generation (drops at idle).";
    DEV_PCIE_LINK_WIDTH 238 INT64 GPU Count (3, 0) "pcie_link_width"
        ["DCGM_FI_DEV_PCIE_LINK_WIDTH"] "PCIe current width.";
    DEV_POWER_VIOLATION 240 INT64 GPU Nanoseconds (3, 0) "power_violation"
        ["DCGM_FI_DEV_POWER_VIOLATION"] "Time throttled by power cap; a counter.";
    DEV_THERMAL_VIOLATION 241 INT64 GPU Nanoseconds (3, 0) "thermal_violation"
        ["DCGM_FI_DEV_THERMAL_VIOLATION"] "Time throttled by temperature; a counter.";
    DEV_SYNC_BOOST_VIOLATION 242 INT64 GPU Nanoseconds (3, 0) "sync_boost_violation"
        ["DCGM_FI_DEV_SYNC_BOOST_VIOLATION"] "Time throttled by sync boost; a counter.";
    DEV_BOARD_LIMIT_VIOLATION 243 INT64 GPU Nanoseconds (3, 0) "board_limit_violation"
        ["DCGM_FI_DEV_BOARD_LIMIT_VIOLATION"] "Time throttled by board limit; a counter.";
    DEV_LOW_UTIL_VIOLATION 244 INT64 GPU Nanoseconds (3, 0) "low_util_violation"
        ["DCGM_FI_DEV_LOW_UTIL_VIOLATION"] "Time clocks lowered for low utilisation; a counter.";
    DEV_RELIABILITY_VIOLATION 245 INT64 GPU Nanoseconds (3, 0) "reliability_violation"
        ["DCGM_FI_DEV_RELIABILITY_VIOLATION"] "Time throttled by reliability voltage; a counter.";
    DEV_TOTAL_APP_CLOCKS_VIOLATION 246 INT64 GPU Nanoseconds (3, 0) "app_clock_violation"
        ["DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION"] "Time below application clocks; a counter.";
    DEV_TOTAL_BASE_CLOCKS_VIOLATION 247 INT64 GPU Nanoseconds (3, 0) "base_clock_violation"
        ["DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION"] "Time below base clocks; a counter.";
    DEV_FB_TOTAL 250 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "fb_total"
        ["DCGM_FI_DEV_FB_TOTAL"] "Framebuffer total.";
    DEV_FB_FREE 251 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "fb_free"
        ["DCGM_FI_DEV_FB_FREE"] "Framebuffer free.";
    DEV_FB_USED 252 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "fb_used"
        ["DCGM_FI_DEV_FB_USED"] "Framebuffer used.";
    DEV_FB_RESERVED 253 INT64 COMPUTE_INSTANCE Mebibytes (3, 0) "fb_resv"
        ["DCGM_FI_DEV_FB_RESERVED"] "Framebuffer reserved by driver.";
    DEV_FB_USED_PERCENT 254 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "fb_USDP"
        ["DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO"]
        "Used / (total - reserved); despite the old name not 0 to 100.";
}
