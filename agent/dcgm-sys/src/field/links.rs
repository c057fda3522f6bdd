//! Fields about NVLink, profiling, clock events, and what came after them.

super::fields! {
    DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL 409 INT64 GPU Count (3, 0) "nvlink_flit_crc_error_count_total"
        ["DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"]
        "NVLink flit CRC errors, all links.";
    DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL 419 INT64 GPU Count (3, 0) "nvlink_data_crc_error_count_total"
        ["DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL"]
        "NVLink data CRC errors, all links.";
    DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL 429 INT64 GPU Count (3, 0) "nvlink_replay_error_count_total"
        ["DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"]
        "NVLink replays, all links.";
    DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL 439 INT64 GPU Count (3, 0) "nvlink_recovery_error_count_total"
        ["DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL"]
        "NVLink recoveries, all links.";
    DEV_NVLINK_BANDWIDTH_TOTAL 449 INT64 GPU MegabytesPerSecond (3, 0) "nvlink_throughput_total"
        ["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL"]
        "Traffic of all NVLinks together; 0 on the first sample.";
    DEV_GPU_NVLINK_ERRORS 450 INT64 GPU None (3, 0) "gpu_nvlink_errors"
        ["DCGM_FI_DEV_GPU_NVLINK_ERRORS", "DCGM_FI_DEV_NVLINK_ERROR"]
        "NVLink error event (recovery / fatal); event-like.";
    DEV_NVLINK_ERROR_DL_CRC 497 INT64 GPU Count (4, 0) "nvlink_crc_err"
        ["DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL"]
        "NVLink data-link CRC errors, all links.";
    DEV_NVLINK_ERROR_DL_RECOVERY 498 INT64 GPU Count (4, 0) "nvlink_recovery_err"
        ["DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL"] "NVLink data-link recoveries.";
    DEV_NVLINK_ERROR_DL_REPLAY 499 INT64 GPU Count (4, 0) "nvlink_replay_err"
        ["DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL"] "NVLink data-link replays.";
    DEV_VIRTUAL_MODE 500 INT64 GPU None (3, 0) "virtualization_mode"
        ["DCGM_FI_DEV_VIRTUAL_MODE", "DCGM_FI_DEV_GPU_VIRTUAL_MODE"] "Virtualisation mode, 0 = bare metal.";
    PROF_GR_ENGINE_ACTIVE 1001 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "gr_engine_active"
        ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"] "Graphics/compute engine active.";
    PROF_SM_ACTIVE 1002 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "sm_active"
        ["DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"] "SM active (at least one warp resident).";
    PROF_SM_OCCUPANCY 1003 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "sm_occupancy"
        ["DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"] "SM occupancy.";
    PROF_PIPE_TENSOR_ACTIVE 1004 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "tensor_active"
        ["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"] "Any tensor pipe active.";
    PROF_DRAM_ACTIVE 1005 DOUBLE GPU_INSTANCE Ratio (3, 0) "dram_active"
        ["DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"] "DRAM interface active.";
    PROF_PIPE_FP64_ACTIVE 1006 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "fp64_active"
        ["DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_FP64_UTIL_RATIO"] "FP64 pipe.";
    PROF_PIPE_FP32_ACTIVE 1007 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "fp32_active"
        ["DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_FP32_UTIL_RATIO"] "FP32 pipe.";
    PROF_PIPE_FP16_ACTIVE 1008 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "fp16_active"
        ["DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_FP16_UTIL_RATIO"] "FP16 pipe (no HMMA).";
    PROF_PCIE_TX_BYTES 1009 INT64 GPU BytesPerSecond (3, 0) "pcie_tx_bytes"
        ["DCGM_FI_PROF_PCIE_TX_BYTES"] "Bytes sent over PCIe per second.";
    PROF_PCIE_RX_BYTES 1010 INT64 GPU BytesPerSecond (3, 0) "pcie_rx_bytes"
        ["DCGM_FI_PROF_PCIE_RX_BYTES"] "Bytes received over PCIe per second.";
    PROF_NVLINK_TX_BYTES 1011 INT64 GPU BytesPerSecond (3, 0) "nvlink_tx_bytes"
        ["DCGM_FI_PROF_NVLINK_TX_BYTES"] "Bytes sent over all NVLinks per second.";
    PROF_NVLINK_RX_BYTES 1012 INT64 GPU BytesPerSecond (3, 0) "nvlink_rx_bytes"
        ["DCGM_FI_PROF_NVLINK_RX_BYTES"] "Bytes received over all NVLinks per second.";
    PROF_PIPE_TENSOR_IMMA_ACTIVE 1013 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "tensor_imma_active"
        ["DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "DCGM_FI_PROF_IMMA_UTIL_RATIO"] "Tensor IMMA.";
    PROF_PIPE_TENSOR_HMMA_ACTIVE 1014 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "tensor_hmma_active"
        ["DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "DCGM_FI_PROF_HMMA_UTIL_RATIO"] "Tensor HMMA.";
    PROF_PIPE_TENSOR_DFMA_ACTIVE 1015 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "tensor_dfma_active"
        ["DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "DCGM_FI_PROF_DFMA_UTIL_RATIO"] "Tensor DFMA.";
    PROF_PIPE_INT_ACTIVE 1016 DOUBLE COMPUTE_INSTANCE Ratio (3, 0) "integer_active"
        ["DCGM_FI_PROF_PIPE_INT_ACTIVE", "DCGM_FI_PROF_INT_UTIL_RATIO"] "Integer pipe.";
    PROF_NVDEC0_ACTIVE 1017 DOUBLE GPU Ratio (3, 0) "nvdec0_active"
        ["DCGM_FI_PROF_NVDEC0_ACTIVE", "DCGM_FI_PROF_NVDEC_UTIL_0_RATIO"]
        "NVDEC engine 0 (1018 to 1024 = engines 1 to 7).";
    PROF_NVJPG0_ACTIVE 1025 DOUBLE GPU Ratio (3, 0) "nvjpg0_active"
        ["DCGM_FI_PROF_NVJPG0_ACTIVE", "DCGM_FI_PROF_NVJPG_UTIL_0_RATIO"]
        "NVJPG engine 0 (1026 to 1032 = engines 1 to 7).";
    PROF_NVOFA0_ACTIVE 1033 DOUBLE GPU Ratio (3, 0) "nvofa0_active"
        ["DCGM_FI_PROF_NVOFA0_ACTIVE", "DCGM_FI_PROF_NVOFA_UTIL_0_RATIO"] "OFA engine 0 (1034 = engine 1, 4.x).";
    PROF_NVLINK_L0_TX_BYTES 1040 INT64 GPU BytesPerSecond (3, 0) "nvlink_l0_tx_bytes"
        ["DCGM_FI_PROF_NVLINK_L0_TX_BYTES"] "NVLink link 0 TX; link n: TX = 1040+2n, RX = 1041+2n, n <= 17.";
    DEV_NVLINK_COUNT_TX_PACKETS 1200 INT64 GPU Count (4, 0) "nvlink_xmit_packets"
        ["DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", "DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL"] "NVLink5 TX packets.";
    DEV_NVLINK_COUNT_TX_BYTES 1201 INT64 GPU Bytes (4, 0) "nvlink_xmit_bytes"
        ["DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL"] "NVLink5 TX bytes.";
    DEV_NVLINK_COUNT_RX_PACKETS 1202 INT64 GPU Count (4, 0) "nvlink_rcv_packets"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", "DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL"] "NVLink5 RX packets.";
    DEV_NVLINK_COUNT_RX_BYTES 1203 INT64 GPU Bytes (4, 0) "nvlink_rcv_bytes"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL"] "NVLink5 RX bytes.";
    DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS 1204 INT64 GPU Count (4, 0) "nvlink_malformed_packets_err"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", "DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL"]
        "NVLink5 malformed RX packets.";
    DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS 1205 INT64 GPU Count (4, 0) "nvlink_buffer_overrun_err"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", "DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL"]
        "NVLink5 RX buffer overruns.";
    DEV_NVLINK_COUNT_RX_ERRORS 1206 INT64 GPU Count (4, 0) "nvlink_rcv_err"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", "DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL"] "NVLink5 RX errors.";
    DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS 1209 INT64 GPU Count (4, 0) "nvlink_rcv_local_link_integrity_err"
        ["DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", "DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL"]
        "NVLink5 local link integrity errors.";
    DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS 1212 INT64 GPU Count (4, 0) "nvlink_link_recovery_failed"
        ["DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL"]
        "NVLink5 failed recoveries.";
    DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS 1213 INT64 GPU Count (4, 0) "nvlink_link_recovery"
        ["DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL"]
        "NVLink5 recovery events.";
    DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS 1214 INT64 GPU Count (4, 0) "nvlink_symbol_err"
        ["DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", "DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL"]
        "NVLink5 RX symbol errors.";
    DEV_NVLINK_COUNT_EFFECTIVE_ERRORS 1219 INT64 GPU Count (4, 2) "nvlink_effective_errors"
        ["DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", "DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL"]
        "NVLink5 effective errors.";
    DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS 1420 INT64 GPU Nanoseconds (4, 2) "clocks_event_power_cap_ns"
        ["DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"] "Clock event time: SW power cap.";
    DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS 1421 INT64 GPU Nanoseconds (4, 2) "clocks_event_boost_ns"
        ["DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS"] "Clock event time: sync boost.";
    DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS 1422 INT64 GPU Nanoseconds (4, 2) "clocks_event_sw_thermal_slowdown_ns"
        ["DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"] "Clock event time: SW thermal.";
    DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS 1423 INT64 GPU Nanoseconds (4, 2) "clocks_event_hw_thermal_slowdown_ns"
        ["DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"] "Clock event time: HW thermal.";
    DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS 1424 INT64 GPU Nanoseconds (4, 2)
        "clocks_event_power_brake_slowdown_ns"
        ["DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"] "Clock event time: HW power brake.";
    DEV_PCIE_COUNT_CORRECTABLE_ERRORS 1501 INT64 GPU Count (4, 4) "pcie_count_correctable_errors"
        ["DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL"]
        "PCIe correctable errors.";
    DEV_MEMORY_UNREPAIRABLE_FLAG 1507 INT64 GPU Flag (4, 5) "memory_unrepairable_flag"
        ["DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", "DCGM_FI_DEV_MEMORY_UNREPAIRABLE"] "Memory has an unrepairable error.";
    DEV_GET_GPU_RECOVERY_ACTION 1523 INT64 GPU None (4, 5) "gpu_recovery_action"
        ["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION"]
        "Recovery action the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain peers, 4 drain and reset.";
}
