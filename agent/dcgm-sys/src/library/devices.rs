//! What the host has: GPUs, their attributes, MIG instances, links, and what the library knows of fields.

use std::ffi::{CStr, c_void};

use super::{Answer, Library, field_table};
use crate::attributes::{DeviceAttributesV3, MigHierarchyV2, MigNode};
use crate::entity::{Entity, EntityGroup, EntityStatus, Handle};
use crate::error::DcgmError;
use crate::field::{FieldId, FieldMeta, RawFieldMeta};
use crate::module::{MetricGroup, MetricGroupsV3};
use crate::nvlink::{LinkState, NvlinkStatusV3, NvlinkStatusV4, NvlinkStatusV5};
use crate::symbols::Symbols;
use crate::text::c_text;
use crate::version::{Major, Versioned};

/// How many GPUs an engine can have.
const MAX_GPUS: usize = 32;
/// How many entities of a kind are asked for at first.
const FIRST_ENTITIES: usize = 64;
/// How often a list that grows is asked for anew.
const ENTITY_ATTEMPTS: usize = 4;

/// The links of a GPU or switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// The GPU or switch.
    pub owner: Entity,
    /// The state of each link, by its index. It has room for links that do not exist.
    pub states: Vec<LinkState>,
}

type ListDevices = unsafe extern "C" fn(Handle, *mut u32, *mut i32) -> i32;

impl Library {
    /// The numbers of every GPU, also of those that DCGM does not support. Without a driver, DCGM 3 answers
    /// NVML_NOT_LOADED and DCGM 4 none.
    #[doc(alias = "dcgmGetAllDevices")]
    pub fn all_devices(&self, engine: Handle) -> Answer<Vec<u32>> {
        list_devices(self.symbols.dcgmGetAllDevices, engine)
    }

    /// The numbers of every GPU that DCGM supports.
    #[doc(alias = "dcgmGetAllSupportedDevices")]
    pub fn supported_devices(&self, engine: Handle) -> Answer<Vec<u32>> {
        list_devices(self.symbols.dcgmGetAllSupportedDevices, engine)
    }

    /// The numbers of every entity of a kind.
    #[doc(alias = "dcgmGetEntityGroupEntities")]
    pub fn entities(&self, engine: Handle, kind: EntityGroup, only_supported: bool) -> Answer<Vec<u32>> {
        let mut entities = vec![0; FIRST_ENTITIES];
        for _ in 0..ENTITY_ATTEMPTS {
            let mut count = i32::try_from(entities.len()).map_err(|_| DcgmError::INSUFFICIENT_SIZE)?;
            let flags = u32::from(only_supported);
            let call = self.symbols.dcgmGetEntityGroupEntities;
            // SAFETY: `entities` has as many places as `count` says.
            let code = unsafe { call(engine, kind, entities.as_mut_ptr(), &raw mut count, flags) };
            let needed = usize::try_from(count).map_err(|_| DcgmError::GENERIC)?;
            if code == DcgmError::INSUFFICIENT_SIZE.code {
                // 3.x does not always tell how many there are.
                entities.resize(needed.max(entities.len().saturating_mul(2)), 0);
                continue;
            }
            DcgmError::check(code)?;
            entities.truncate(needed);
            return Ok(entities);
        }
        Err(DcgmError::INSUFFICIENT_SIZE)
    }

    /// What a GPU is and is set to. Single members are blank where the engine does not know them.
    #[doc(alias = "dcgmGetDeviceAttributes")]
    pub fn device_attributes(&self, engine: Handle, gpu: u32) -> Answer<Box<DeviceAttributesV3>> {
        let mut attributes = DeviceAttributesV3::boxed();
        // SAFETY: a struct of the version its word tells. Its parts carry no word of their own on the way in.
        DcgmError::check(unsafe { (self.symbols.dcgmGetDeviceAttributes)(engine, gpu, &raw mut *attributes) })?;
        Ok(attributes)
    }

    /// What the engine thinks of a GPU.
    #[doc(alias = "dcgmGetGpuStatus")]
    pub fn gpu_status(&self, engine: Handle, gpu: u32) -> Answer<EntityStatus> {
        let mut status = EntityStatus::UNKNOWN;
        // SAFETY: a place for the status.
        DcgmError::check(unsafe { (self.symbols.dcgmGetGpuStatus)(engine, gpu, &raw mut status) })?;
        Ok(status)
    }

    /// Every MIG instance.
    #[doc(alias = "dcgmGetGpuInstanceHierarchy")]
    pub fn mig_hierarchy(&self, engine: Handle) -> Answer<Vec<MigNode>> {
        let mut hierarchy = MigHierarchyV2::boxed();
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmGetGpuInstanceHierarchy)(engine, &raw mut *hierarchy) })?;
        let count = usize::try_from(hierarchy.count).unwrap_or(usize::MAX);
        Ok(hierarchy.nodes.iter().take(count).copied().collect())
    }

    /// Which profiling fields of a GPU can be read together.
    #[doc(alias = "dcgmProfGetSupportedMetricGroups")]
    pub fn metric_groups(&self, engine: Handle, gpu: u32) -> Answer<Vec<MetricGroup>> {
        let mut groups = MetricGroupsV3::boxed();
        groups.gpu = gpu;
        // SAFETY: a struct of the version its word tells.
        DcgmError::check(unsafe { (self.symbols.dcgmProfGetSupportedMetricGroups)(engine, &raw mut *groups) })?;
        let count = usize::try_from(groups.count).unwrap_or(usize::MAX);
        Ok(groups.groups.iter().take(count).copied().collect())
    }

    /// The state of every NVLink of every GPU and NVSwitch.
    #[doc(alias = "dcgmGetNvLinkLinkStatus")]
    pub fn nvlink_status(&self, engine: Handle) -> Answer<Vec<Links>> {
        match self.major {
            Major::V3 => self.nvlink_status_as::<NvlinkStatusV3>(engine),
            Major::V4 => match self.nvlink_status_as::<NvlinkStatusV5>(engine) {
                Err(DcgmError::VERSION_MISMATCH) => self.nvlink_status_as::<NvlinkStatusV4>(engine),
                answer => answer,
            },
        }
    }

    fn nvlink_status_as<T: LinkTable>(&self, engine: Handle) -> Answer<Vec<Links>> {
        let mut table = T::boxed();
        let pointer: *mut T = &raw mut *table;
        let call = self.symbols.dcgmGetNvLinkLinkStatus;
        // SAFETY: a struct of the version its word tells; the library looks at the word.
        DcgmError::check(unsafe { call(engine, pointer.cast::<c_void>()) })?;
        Ok(table.links())
    }

    /// What the library knows of a field; `None` when it does not know it, or was not started.
    #[doc(alias = "DcgmFieldGetById")]
    pub fn field_meta(&self, field: FieldId) -> Option<FieldMeta> {
        let _table = field_table();
        // SAFETY: the answer is null or points into a table that lives until `shutdown`, which waits for the lock.
        unsafe { copy((self.symbols.DcgmFieldGetById)(field)) }
    }

    /// The same by the field's tag.
    #[doc(alias = "DcgmFieldGetByTag")]
    pub fn field_by_tag(&self, tag: &str) -> Option<FieldMeta> {
        let tag = c_text(tag).ok()?;
        let _table = field_table();
        // SAFETY: as above; the text outlives the call.
        unsafe { copy((self.symbols.DcgmFieldGetByTag)(tag.as_ptr())) }
    }

    /// DCGM's name for a kind of entity.
    #[doc(alias = "DcgmFieldsGetEntityGroupString")]
    pub fn entity_group_name(&self, kind: EntityGroup) -> Option<String> {
        entity_group_name(&self.symbols, kind)
    }
}

fn entity_group_name(symbols: &Symbols, kind: EntityGroup) -> Option<String> {
    // SAFETY: the answer is null or a static text.
    let text = unsafe { (symbols.DcgmFieldsGetEntityGroupString)(kind).as_ref().map(|text| CStr::from_ptr(text)) };
    text.map(|text| text.to_string_lossy().into_owned())
}

/// Copies an entry of the library's table.
///
/// # Safety
///
/// The pointer is null or points to an entry that lives during this call.
unsafe fn copy(raw: *const RawFieldMeta) -> Option<FieldMeta> {
    // SAFETY: by the contract of this function.
    unsafe { raw.as_ref() }.map(FieldMeta::from)
}

fn list_devices(call: ListDevices, engine: Handle) -> Answer<Vec<u32>> {
    let mut gpus = [0; MAX_GPUS];
    let mut count = 0;
    // SAFETY: the array has the 32 places the library may fill.
    DcgmError::check(unsafe { call(engine, gpus.as_mut_ptr(), &raw mut count) })?;
    let count = usize::try_from(count).map_err(|_| DcgmError::GENERIC)?;
    Ok(gpus.into_iter().take(count).collect())
}

/// A version of the struct that holds links.
trait LinkTable: Versioned {
    fn links(&self) -> Vec<Links>;
}

macro_rules! link_tables {
    ($($table:ty),*) => {$(
        impl LinkTable for $table {
            fn links(&self) -> Vec<Links> {
                let links = |group| move |(id, states): (u32, &[LinkState])| {
                    Links { owner: Entity { group, id }, states: states.to_vec() }
                };
                let gpus = self.gpu_links().map(links(EntityGroup::GPU));
                gpus.chain(self.switch_links().map(links(EntityGroup::SWITCH))).collect()
            }
        }
    )*};
}

link_tables!(NvlinkStatusV3, NvlinkStatusV4, NvlinkStatusV5);
