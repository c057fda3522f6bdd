//! What the host has: GPUs, attributes, links, the table of fields.

use std::ffi::{c_char, c_void};

use dcgm_sys::attributes::{DeviceAttributesV3, MigHierarchyV2, MigInfo, MigNode};
use dcgm_sys::blank::{INT32_BLANK, TEXT_BLANK};
use dcgm_sys::entity::EntityStatus;
use dcgm_sys::field::RawFieldMeta;
use dcgm_sys::module::{MetricGroup, MetricGroupsV3, ModuleId};
use dcgm_sys::nvlink::{LinkState, NvlinkStatusV3, NvlinkStatusV4, NvlinkStatusV5};
use dcgm_sys::text::array;
use dcgm_sys::version::Versioned;
use dcgm_sys::{DcgmError, Entity, EntityGroup, FieldId, Major};

use super::{engine_calls, exports};
use crate::engine::entities;
use crate::gate::{Answer, Call, on_library};
use crate::output::{get, get_text, put, put_all, versioned, word};
use crate::readings::{device, instances};
use crate::registry::registry;
use crate::scenario::{Device, FieldName, Reading, Scenario};

/// How many GPUs a list holds.
const MAX_GPUS: usize = 32;
/// The flag that leaves out entities that DCGM does not support.
const ONLY_SUPPORTED: u32 = 1;

engine_calls! {
    fn dcgmGetAllDevices(call, ids: *mut u32, count: *mut i32) { list(call, false, ids, count) }

    fn dcgmGetAllSupportedDevices(call, ids: *mut u32, count: *mut i32) { list(call, true, ids, count) }

    fn dcgmGetEntityGroupEntities(call, kind: EntityGroup, entities: *mut u32, count: *mut i32, flags: u32) {
        if kind == EntityGroup::NONE {
            return Err(DcgmError::BAD_PARAMETER);
        }
        let found = visible(call.scenario, kind, flags & ONLY_SUPPORTED != 0);
        let needed = i32::try_from(found.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
        if get(count)? < needed {
            if call.major() == Major::V4 {
                put(count, needed)?;
            }
            return Err(DcgmError::INSUFFICIENT_SIZE);
        }
        put(count, needed)?;
        put_all(entities, found)
    }

    fn dcgmGetDeviceAttributes(call, gpu: u32, attributes: *mut DeviceAttributesV3) {
        let attributes = versioned(attributes)?;
        let device = device(call.scenario, gpu).ok_or(DcgmError::BAD_PARAMETER)?;
        fill_attributes(attributes, call.scenario, device);
        Ok(())
    }

    fn dcgmGetGpuInstanceHierarchy(call, hierarchy: *mut MigHierarchyV2) {
        fill_hierarchy(versioned(hierarchy)?, call.scenario);
        Ok(())
    }

    fn dcgmGetGpuStatus(call, gpu: u32, status: *mut EntityStatus) {
        let device = device(call.scenario, gpu).ok_or(DcgmError::BAD_PARAMETER)?;
        put(status, match device.status {
            Some(status) => status.0,
            None if device.lost => EntityStatus::LOST,
            None if device.unsupported => EntityStatus::UNSUPPORTED,
            None => EntityStatus::OK,
        })
    }

    fn dcgmProfGetSupportedMetricGroups(call, groups: *mut MetricGroupsV3) {
        let groups = versioned(groups)?;
        let device = device(call.scenario, groups.gpu).ok_or(DcgmError::BAD_PARAMETER)?;
        if !device.gpm {
            if !call.scenario.profiling_module {
                return Err(DcgmError::MODULE_NOT_LOADED);
            }
            call.engine.use_module(call.scenario, ModuleId::PROFILING)?;
        }
        fill_metric_groups(groups);
        Ok(())
    }

    fn dcgmGetNvLinkLinkStatus(call, status: *mut c_void) {
        let version = call.scenario.version();
        let word = word(status)?;
        match call.major() {
            Major::V3 if word == NvlinkStatusV3::VERSION => fill_links::<NvlinkStatusV3>(status.cast(), call.scenario),
            Major::V4 if word == NvlinkStatusV4::VERSION => fill_links::<NvlinkStatusV4>(status.cast(), call.scenario),
            Major::V4 if word == NvlinkStatusV5::VERSION && version.minor >= 6 => {
                fill_links::<NvlinkStatusV5>(status.cast(), call.scenario)
            }
            _ => Err(DcgmError::VERSION_MISMATCH),
        }
    }
}

exports! {
    fn DcgmFieldGetById(field: FieldId) -> *const RawFieldMeta {
        table(|scenario| crate::fields::by_id(field, scenario.version()))
    }

    fn DcgmFieldGetByTag(tag: *const c_char) -> *const RawFieldMeta {
        let Ok(tag) = get_text(tag) else { return std::ptr::null() };
        table(|scenario| crate::fields::by_tag(&tag, scenario.version()))
    }

    fn DcgmFieldsGetEntityGroupString(kind: EntityGroup) -> *const c_char {
        let name = match kind {
            EntityGroup::NONE => c"None",
            EntityGroup::GPU => c"GPU",
            EntityGroup::VGPU => c"vGPU",
            EntityGroup::SWITCH => c"Switch",
            EntityGroup::GPU_INSTANCE => c"GPU_I",
            EntityGroup::COMPUTE_INSTANCE => c"GPU_CI",
            EntityGroup::LINK => c"LINK",
            EntityGroup::CPU => c"CPU",
            EntityGroup::CPU_CORE => c"Core",
            _ => c"Unknown",
        };
        name.as_ptr()
    }
}

/// Looks into the table of fields, which is there only while the library is started.
fn table(look: impl FnOnce(&Scenario) -> Option<&'static RawFieldMeta>) -> *const RawFieldMeta {
    if !registry().started {
        return std::ptr::null();
    }
    let found = on_library("DcgmFieldGet", |_, scenario| Ok(look(scenario)));
    found.ok().flatten().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// The entities a client sees: none without a driver.
fn visible(scenario: &Scenario, kind: EntityGroup, only_supported: bool) -> Vec<u32> {
    let found = if scenario.nvml { entities(scenario, kind, only_supported) } else { Vec::new() };
    found.into_iter().map(|entity| entity.id).collect()
}

/// Below each GPU its GPU instances, and below each of these its compute instance.
fn fill_hierarchy(hierarchy: &mut MigHierarchyV2, scenario: &Scenario) {
    hierarchy.count = 0;
    let nodes = (0_u32..).zip(instances(scenario)).flat_map(|(id, (gpu, device, instance))| {
        let uuid = match device.fields.get(&FieldName(FieldId::DEV_UUID)) {
            Some(Reading::Text(uuid)) => uuid.as_str(),
            _ => "",
        };
        let info = MigInfo {
            gpu_uuid: array(uuid),
            nvml_index: gpu,
            gpu_instance: instance.gpu_instance,
            compute_instance: instance.compute_instance,
            profile: instance.profile,
            slices: instance.slices,
        };
        let outer = Entity { group: EntityGroup::GPU_INSTANCE, id };
        let inner = Entity { group: EntityGroup::COMPUTE_INSTANCE, id };
        [MigNode { entity: outer, parent: Entity::gpu(gpu), info }, MigNode { entity: inner, parent: outer, info }]
    });
    for (place, node) in hierarchy.nodes.iter_mut().zip(nodes) {
        *place = node;
        hierarchy.count += 1;
    }
}

fn list(call: &Call<'_>, only_supported: bool, ids: *mut u32, count: *mut i32) -> Answer {
    if !call.scenario.nvml && call.major() == Major::V3 {
        return Err(DcgmError::NVML_NOT_LOADED);
    }
    let mut found = visible(call.scenario, EntityGroup::GPU, only_supported);
    found.truncate(MAX_GPUS);
    put(count, i32::try_from(found.len()).map_err(|_| DcgmError::MAX_LIMIT)?)?;
    put_all(ids, found)
}

/// The value of a member of the attributes: blank when the scenario has none.
fn number(device: &Device, field: FieldId) -> u32 {
    let value = match device.fields.get(&FieldName(field)) {
        Some(Reading::Int(value)) => u32::try_from(*value).ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "watts of a scenario")]
        Some(Reading::Double(value)) => Some(*value as u32),
        _ => None,
    };
    value.unwrap_or(INT32_BLANK.unsigned_abs())
}

fn fill_attributes(attributes: &mut DeviceAttributesV3, scenario: &Scenario, device: &Device) {
    let text = |field| match device.fields.get(&FieldName(field)).or_else(|| scenario.fields.get(&FieldName(field))) {
        Some(Reading::Text(text)) => array(text),
        _ => array(TEXT_BLANK),
    };
    let number = |field| number(device, field);
    attributes.clock_sets.count = 0;
    attributes.thermals.slowdown = number(FieldId::DEV_SLOWDOWN_TEMP);
    attributes.thermals.shutdown = number(FieldId::DEV_SHUTDOWN_TEMP);
    attributes.power_limits.current = number(FieldId::DEV_POWER_MGMT_LIMIT);
    attributes.power_limits.default = number(FieldId::DEV_POWER_MGMT_LIMIT_DEF);
    attributes.power_limits.enforced = number(FieldId::DEV_ENFORCED_POWER_LIMIT);
    attributes.power_limits.min = number(FieldId::DEV_POWER_MGMT_LIMIT_MIN);
    attributes.power_limits.max = number(FieldId::DEV_POWER_MGMT_LIMIT_MAX);
    attributes.identifiers.brand = text(FieldId::DEV_BRAND);
    attributes.identifiers.name = text(FieldId::DEV_NAME);
    attributes.identifiers.pci_bus_id = text(FieldId::DEV_PCI_BUSID);
    attributes.identifiers.serial = text(FieldId::DEV_SERIAL);
    attributes.identifiers.uuid = text(FieldId::DEV_UUID);
    attributes.identifiers.vbios = text(FieldId::DEV_VBIOS_VERSION);
    attributes.identifiers.inforom = text(FieldId::DEV_INFOROM_IMAGE_VER);
    attributes.identifiers.driver = text(FieldId::DRIVER_VERSION);
    attributes.identifiers.pci_device_id = number(FieldId::DEV_PCI_COMBINED_ID);
    attributes.identifiers.pci_subsystem_id = number(FieldId::DEV_PCI_SUBSYS_ID);
    attributes.identifiers.virtualization = number(FieldId::DEV_VIRTUAL_MODE);
    attributes.memory.bar1_total = number(FieldId::DEV_BAR1_TOTAL);
    attributes.memory.total = number(FieldId::DEV_FB_TOTAL);
    attributes.memory.used = number(FieldId::DEV_FB_USED);
    attributes.memory.free = number(FieldId::DEV_FB_FREE);
    attributes.settings.persistence = number(FieldId::DEV_PERSISTENCE_MODE);
    attributes.settings.mig = number(FieldId::DEV_MIG_MODE);
    attributes.settings.confidential_compute = number(FieldId::DEV_CC_MODE);
}

/// The engine's fixed list for GPUs that need no profiling module.
fn fill_metric_groups(groups: &mut MetricGroupsV3) {
    const FIXED: [&[u16]; 3] = [
        &[1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1013, 1014, 1015, 1016],
        &[1009, 1010, 1011, 1012],
        &[1017, 1025, 1033],
    ];
    groups.count = 0;
    for ((place, fields), major) in groups.groups.iter_mut().zip(FIXED).zip(0_u16..) {
        *place = MetricGroup { major, minor: 0, count: 0, fields: [FieldId(0); 64] };
        for (slot, field) in place.fields.iter_mut().zip(fields) {
            *slot = FieldId(*field);
            place.count += 1;
        }
        groups.count += 1;
    }
}

/// A version of the struct that holds links.
trait LinkTable: Versioned {
    fn clear(&mut self);
    fn push(&mut self, id: u32, states: &[LinkState]);
}

macro_rules! link_tables {
    ($($table:ty),*) => {$(
        impl LinkTable for $table {
            fn clear(&mut self) {
                self.gpu_count = 0;
                self.switch_count = 0;
            }

            fn push(&mut self, id: u32, states: &[LinkState]) {
                let place = usize::try_from(self.gpu_count).ok().and_then(|place| self.gpus.get_mut(place));
                if let Some(gpu) = place {
                    gpu.id = id;
                    gpu.links.fill(LinkState::NOT_SUPPORTED);
                    gpu.links.iter_mut().zip(states).for_each(|(link, state)| *link = *state);
                    self.gpu_count += 1;
                }
            }
        }
    )*};
}

link_tables!(NvlinkStatusV3, NvlinkStatusV4, NvlinkStatusV5);

fn fill_links<T: LinkTable>(status: *mut T, scenario: &Scenario) -> Answer {
    let table = versioned(status)?;
    table.clear();
    for (id, device) in (0_u32..).zip(&scenario.devices) {
        let states: Vec<LinkState> = device.nvlinks.iter().map(|state| state.0).collect();
        table.push(id, &states);
    }
    Ok(())
}
