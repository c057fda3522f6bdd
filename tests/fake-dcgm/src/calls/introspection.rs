//! What the engine consists of and costs.

use dcgm_sys::DcgmError;
use dcgm_sys::module::{IntrospectCpuV1, IntrospectMemoryV1, ModuleId, ModuleStatusesV1};

use super::engine_calls;
use crate::output::versioned;

engine_calls! {
    fn dcgmModuleGetStatuses(call, statuses: *mut ModuleStatusesV1) {
        let statuses = versioned(statuses)?;
        let modules = call.engine.modules(call.scenario);
        statuses.count = u32::try_from(modules.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
        statuses.modules.iter_mut().zip(modules).for_each(|(place, module)| *place = module);
        Ok(())
    }

    fn dcgmIntrospectGetHostengineMemoryUsage(call, memory: *mut IntrospectMemoryV1, _wait: i32) {
        let memory = versioned(memory)?;
        call.engine.use_module(call.scenario, ModuleId::INTROSPECT)?;
        memory.bytes_used = call.scenario.memory_bytes;
        Ok(())
    }

    fn dcgmIntrospectGetHostengineCpuUtilization(call, cpu: *mut IntrospectCpuV1, _wait: i32) {
        let cpu = versioned(cpu)?;
        call.engine.use_module(call.scenario, ModuleId::INTROSPECT)?;
        (cpu.total, cpu.kernel, cpu.user) = (0.004, 0.001, 0.003);
        Ok(())
    }
}
