//! One engine's memory: groups, field groups, watches and their samples, health watches, policies. Pure: time, scenario
//! and version come in as arguments; nothing blocks or calls back.

use std::collections::{BTreeMap, BTreeSet};

use dcgm_sys::engine::OperationMode;
use dcgm_sys::health::HealthSystems;
use dcgm_sys::module::{Module, ModuleId, ModuleStatus};
use dcgm_sys::policy::PolicyV1;
use dcgm_sys::{DcgmError, Entity, EntityGroup, FieldGroup, FieldId, Group, Handle, Major, Version};

use crate::notices::Registration;
use crate::readings::instances;
use crate::scenario::Scenario;

mod watches;

pub(crate) use watches::Rate;
use watches::Watch;

/// How many groups, and how many field groups, an engine holds.
const MAX_GROUPS: usize = 64;
/// How many fields a field group holds.
const MAX_FIELDS: usize = 128;

/// An engine, embedded or remote.
pub(crate) struct Engine {
    pub(crate) version: Version,
    pub(crate) mode: OperationMode,
    pub(crate) denied: BTreeSet<ModuleId>,
    pub(crate) health: BTreeMap<usize, HealthSystems>,
    pub(crate) policies: BTreeMap<usize, PolicyV1>,
    pub(crate) registrations: Vec<Registration>,
    groups: BTreeMap<usize, Members>,
    field_groups: BTreeMap<usize, Fields>,
    watches: BTreeMap<(Entity, FieldId), Watch>,
    used: BTreeSet<ModuleId>,
    made: usize,
}

/// A group.
pub(crate) struct Members {
    pub(crate) name: String,
    pub(crate) entities: Vec<Entity>,
    owner: Handle,
}

struct Fields {
    name: String,
    ids: Vec<FieldId>,
    owner: Handle,
}

/// Every GPU of the scenario that DCGM supports.
pub(crate) fn gpus(scenario: &Scenario, only_supported: bool) -> Vec<u32> {
    let numbered = (0_u32..).zip(&scenario.devices);
    numbered.filter(|(_, device)| !(only_supported && device.unsupported)).map(|(id, _)| id).collect()
}

/// Every entity of a kind.
pub(crate) fn entities(scenario: &Scenario, kind: EntityGroup, only_supported: bool) -> Vec<Entity> {
    let ids = match kind {
        EntityGroup::GPU => gpus(scenario, only_supported),
        EntityGroup::GPU_INSTANCE | EntityGroup::COMPUTE_INSTANCE => {
            (0_u32..).zip(instances(scenario)).map(|(id, _)| id).collect()
        }
        _ => Vec::new(),
    };
    ids.into_iter().map(|id| Entity { group: kind, id }).collect()
}

/// Every entity of every kind.
pub(crate) fn everything(scenario: &Scenario) -> Vec<Entity> {
    let kinds = [EntityGroup::GPU, EntityGroup::GPU_INSTANCE, EntityGroup::COMPUTE_INSTANCE];
    kinds.into_iter().flat_map(|kind| entities(scenario, kind, true)).collect()
}

impl Engine {
    pub(crate) fn new(version: Version, mode: OperationMode, denied: BTreeSet<ModuleId>) -> Self {
        Self {
            version,
            mode,
            denied,
            health: BTreeMap::new(),
            policies: BTreeMap::new(),
            registrations: Vec::new(),
            groups: BTreeMap::new(),
            field_groups: BTreeMap::new(),
            watches: BTreeMap::new(),
            used: BTreeSet::from([ModuleId::CORE]),
            made: 0,
        }
    }

    fn major(&self) -> Major {
        Major::from_number(self.version.major).unwrap_or(Major::V4)
    }

    fn max_entities(&self) -> usize {
        match self.major() {
            Major::V3 => 64,
            Major::V4 => 1024,
        }
    }

    fn number(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Makes a group of these entities.
    pub(crate) fn add_group(&mut self, name: String, entities: Vec<Entity>, owner: Handle) -> Result<Group, DcgmError> {
        if self.groups.len() >= MAX_GROUPS {
            return Err(DcgmError::MAX_LIMIT);
        }
        let number = self.number();
        self.groups.insert(number, Members { name, entities, owner });
        Ok(Group(number))
    }

    /// A group that a client made.
    pub(crate) fn group(&self, group: Group) -> Result<&Members, DcgmError> {
        self.groups.get(&group.0).ok_or(DcgmError::NOT_CONFIGURED)
    }

    /// Adds an entity that the scenario has.
    pub(crate) fn add_entity(&mut self, scenario: &Scenario, group: Group, entity: Entity) -> Result<(), DcgmError> {
        let limit = self.max_entities();
        let known = match entity.group {
            EntityGroup::NONE => entity.id == 0,
            kind => entities(scenario, kind, false).contains(&entity),
        };
        let members = self.groups.get_mut(&group.0).ok_or(DcgmError::NOT_CONFIGURED)?;
        if !known || members.entities.contains(&entity) {
            return Err(DcgmError::BAD_PARAMETER);
        }
        if members.entities.len() >= limit {
            return Err(DcgmError::MAX_LIMIT);
        }
        members.entities.push(entity);
        Ok(())
    }

    pub(crate) fn remove_entity(&mut self, group: Group, entity: Entity) -> Result<(), DcgmError> {
        let members = self.groups.get_mut(&group.0).ok_or(DcgmError::NOT_CONFIGURED)?;
        let place = members.entities.iter().position(|known| *known == entity).ok_or(DcgmError::BAD_PARAMETER)?;
        members.entities.remove(place);
        Ok(())
    }

    pub(crate) fn remove_group(&mut self, group: Group) -> Result<(), DcgmError> {
        self.groups.remove(&group.0).ok_or(DcgmError::NOT_CONFIGURED)?;
        self.health.remove(&group.0);
        self.policies.remove(&group.0);
        self.registrations.retain(|registration| registration.group != group);
        self.drop_watches(|watched, _| watched == group);
        Ok(())
    }

    /// The entities of a group, also of those that always exist.
    pub(crate) fn members(&self, scenario: &Scenario, group: Group) -> Result<Vec<Entity>, DcgmError> {
        match group {
            Group::ALL_GPUS => Ok(entities(scenario, EntityGroup::GPU, true)),
            Group::ALL_GPU_INSTANCES => Ok(entities(scenario, EntityGroup::GPU_INSTANCE, true)),
            Group::ALL_COMPUTE_INSTANCES => Ok(entities(scenario, EntityGroup::COMPUTE_INSTANCE, true)),
            Group::ALL_ENTITIES => Ok(everything(scenario)),
            Group::ALL_SWITCHES => Ok(Vec::new()),
            group => self.group(group).map(|members| members.entities.clone()),
        }
    }

    pub(crate) fn add_field_group(
        &mut self,
        name: String,
        fields: Vec<FieldId>,
        owner: Handle,
    ) -> Result<FieldGroup, DcgmError> {
        if fields.is_empty() || fields.len() > MAX_FIELDS {
            return Err(DcgmError::BAD_PARAMETER);
        }
        if fields.iter().any(|field| crate::fields::kind_in(*field, self.version).is_none()) {
            return Err(DcgmError::UNKNOWN_FIELD);
        }
        if self.field_groups.values().any(|known| known.name == name) {
            return Err(DcgmError::DUPLICATE_KEY);
        }
        if self.field_groups.len() >= MAX_GROUPS {
            return Err(DcgmError::MAX_LIMIT);
        }
        let number = self.number();
        self.field_groups.insert(number, Fields { name, ids: fields, owner });
        Ok(FieldGroup(number))
    }

    pub(crate) fn fields(&self, group: FieldGroup) -> Result<Vec<FieldId>, DcgmError> {
        self.field_groups.get(&group.0).map(|group| group.ids.clone()).ok_or(DcgmError::NO_DATA)
    }

    pub(crate) fn remove_field_group(&mut self, group: FieldGroup) -> Result<(), DcgmError> {
        self.field_groups.remove(&group.0).map(|_| ()).ok_or(DcgmError::NO_DATA)?;
        self.drop_watches(|_, watched| watched == group);
        Ok(())
    }

    /// Forgets what a connection made.
    pub(crate) fn forget(&mut self, owner: Handle) {
        let owned = |(number, members): (&usize, &Members)| (members.owner == owner).then_some(Group(*number));
        let groups: Vec<Group> = self.groups.iter().filter_map(owned).collect();
        for group in groups {
            // It was just found.
            let _ = self.remove_group(group);
        }
        let owned = |(number, fields): (&usize, &Fields)| (fields.owner == owner).then_some(FieldGroup(*number));
        let field_groups: Vec<FieldGroup> = self.field_groups.iter().filter_map(owned).collect();
        for group in field_groups {
            // It was just found.
            let _ = self.remove_field_group(group);
        }
        self.registrations.retain(|registration| registration.owner != owner);
    }

    /// Every module of this version with its status.
    pub(crate) fn modules(&self, scenario: &Scenario) -> Vec<Module> {
        let last = match self.major() {
            Major::V3 => ModuleId::SYSMON,
            Major::V4 => ModuleId::MULTI_NODE_DIAG,
        };
        (0..=last.0).map(ModuleId).map(|id| Module { id, status: self.module_status(scenario, id) }).collect()
    }

    fn module_status(&self, scenario: &Scenario, id: ModuleId) -> ModuleStatus {
        let fixed = scenario.modules.iter().find(|fixed| fixed.module.0 == id);
        match fixed {
            Some(fixed) => fixed.status.0,
            None if self.denied.contains(&id) => ModuleStatus::DENYLISTED,
            None if self.used.contains(&id) => ModuleStatus::LOADED,
            None => ModuleStatus::NOT_LOADED,
        }
    }

    /// Uses a module, which loads it.
    pub(crate) fn use_module(&mut self, scenario: &Scenario, id: ModuleId) -> Result<(), DcgmError> {
        match self.module_status(scenario, id) {
            ModuleStatus::LOADED | ModuleStatus::NOT_LOADED | ModuleStatus::RELOADABLE => {
                self.used.insert(id);
                Ok(())
            }
            ModuleStatus::PAUSED => Err(DcgmError::PAUSED),
            _ => Err(DcgmError::MODULE_NOT_LOADED),
        }
    }
}
