//! Groups of entities and of fields, and watching the one for the other.

use std::ffi::c_void;
use std::time::Duration;

use super::{Answer, Library};
use crate::entity::{Entity, FieldGroup, Group, GroupInfoV2, GroupInfoV3, GroupType, Handle};
use crate::error::DcgmError;
use crate::field::FieldId;
use crate::text::{c_text, text};
use crate::version::{Major, Versioned};

/// How many fields a field group holds.
const MAX_FIELDS: usize = 128;

/// What is in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Its entities.
    pub entities: Vec<Entity>,
}

/// How fields are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// How often they are read.
    pub every: Duration,
    /// How long samples are kept.
    pub keep: Duration,
    /// How many are kept; unset: all of that time.
    pub keep_samples: Option<u32>,
}

impl Library {
    /// Makes a group.
    #[doc(alias = "dcgmGroupCreate")]
    pub fn group_create(&self, engine: Handle, kind: GroupType, name: &str) -> Answer<Group> {
        let name = c_text(name)?;
        let mut group = Group::NULL;
        // SAFETY: a text that outlives the call, a place for the group.
        DcgmError::check(unsafe { (self.symbols.dcgmGroupCreate)(engine, kind, name.as_ptr(), &raw mut group) })?;
        Ok(group)
    }

    /// Adds an entity.
    #[doc(alias = "dcgmGroupAddEntity")]
    #[doc(alias = "dcgmGroupAddDevice")]
    pub fn group_add(&self, engine: Handle, group: Group, entity: Entity) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmGroupAddEntity)(engine, group, entity.group, entity.id) })
    }

    /// Takes an entity out.
    #[doc(alias = "dcgmGroupRemoveEntity")]
    pub fn group_remove(&self, engine: Handle, group: Group, entity: Entity) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmGroupRemoveEntity)(engine, group, entity.group, entity.id) })
    }

    /// What is in a group.
    #[doc(alias = "dcgmGroupGetInfo")]
    pub fn group_info(&self, engine: Handle, group: Group) -> Answer<GroupInfo> {
        match self.major {
            Major::V3 => {
                let info = self.group_info_as::<GroupInfoV2>(engine, group)?;
                Ok(group_info(&info.name, info.count, &info.entities))
            }
            Major::V4 => {
                let info = self.group_info_as::<GroupInfoV3>(engine, group)?;
                Ok(group_info(&info.name, info.count, &info.entities))
            }
        }
    }

    fn group_info_as<T: Versioned>(&self, engine: Handle, group: Group) -> Answer<Box<T>> {
        let mut info = T::boxed();
        let pointer: *mut T = &raw mut *info;
        // SAFETY: a struct of the version its word tells; the library looks at the word.
        DcgmError::check(unsafe { (self.symbols.dcgmGroupGetInfo)(engine, group, pointer.cast::<c_void>()) })?;
        Ok(info)
    }

    /// Removes a group.
    #[doc(alias = "dcgmGroupDestroy")]
    pub fn group_destroy(&self, engine: Handle, group: Group) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmGroupDestroy)(engine, group) })
    }

    /// Makes a group of up to 128 fields. Its name must be new to the engine. Keep profiling fields in one of their
    /// own.
    #[doc(alias = "dcgmFieldGroupCreate")]
    pub fn field_group_create(&self, engine: Handle, fields: &[FieldId], name: &str) -> Answer<FieldGroup> {
        if fields.len() > MAX_FIELDS {
            return Err(DcgmError::MAX_LIMIT);
        }
        let count = i32::try_from(fields.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
        let name = c_text(name)?;
        let mut group = FieldGroup(0);
        let call = self.symbols.dcgmFieldGroupCreate;
        // SAFETY: as many fields as `count` says, a text that outlives the call, a place for the group.
        DcgmError::check(unsafe { call(engine, count, fields.as_ptr(), name.as_ptr(), &raw mut group) })?;
        Ok(group)
    }

    /// Removes a group of fields.
    #[doc(alias = "dcgmFieldGroupDestroy")]
    pub fn field_group_destroy(&self, engine: Handle, fields: FieldGroup) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmFieldGroupDestroy)(engine, fields) })
    }

    /// Watches fields. The first watch of something reads it before it returns, which can take long with many GPUs.
    #[doc(alias = "dcgmWatchFields")]
    pub fn watch_fields(&self, engine: Handle, group: Group, fields: FieldGroup, options: WatchOptions) -> Answer<()> {
        let every = i64::try_from(options.every.as_micros()).map_err(|_| DcgmError::BAD_PARAMETER)?;
        let samples = options.keep_samples.map_or(Ok(0), i32::try_from).map_err(|_| DcgmError::BAD_PARAMETER)?;
        let call = self.symbols.dcgmWatchFields;
        // SAFETY: numbers only.
        DcgmError::check(unsafe { call(engine, group, fields, every, options.keep.as_secs_f64(), samples) })
    }

    /// Ends a watch.
    #[doc(alias = "dcgmUnwatchFields")]
    pub fn unwatch_fields(&self, engine: Handle, group: Group, fields: FieldGroup) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmUnwatchFields)(engine, group, fields) })
    }

    /// Makes the engine read what is due. In manual mode nothing else does.
    #[doc(alias = "dcgmUpdateAllFields")]
    pub fn update_all_fields(&self, engine: Handle, wait: bool) -> Answer<()> {
        // SAFETY: numbers only.
        DcgmError::check(unsafe { (self.symbols.dcgmUpdateAllFields)(engine, i32::from(wait)) })
    }
}

fn group_info(name: &[u8], count: u32, entities: &[Entity]) -> GroupInfo {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    GroupInfo { name: text(name).into_owned(), entities: entities.iter().take(count).copied().collect() }
}
