//! The C functions, each resolved on its own, with the signature it has in 3.1 to 4.6.

#![allow(non_snake_case, reason = "the fields are named as DCGM's functions")]

use std::ffi::{c_char, c_void};

use libloading::os::unix::Library;

use crate::attributes::{DeviceAttributesV3, MigHierarchyV2};
use crate::engine::{ConnectV2, ConnectV3, HostengineHealthV1, StartEmbeddedV2, VersionInfoV2};
use crate::entity::{Entity, EntityGroup, EntityStatus, FieldGroup, Group, GroupType, Handle};
use crate::field::{FieldId, RawFieldMeta};
use crate::health::{HealthSetV2, HealthSystems};
use crate::module::{IntrospectCpuV1, IntrospectMemoryV1, MetricGroupsV3, ModuleStatusesV1};
use crate::policy::{Conditions, PolicyCallbackV2, PolicyV1};
use crate::value::{FieldValueV1, FieldValueV2};

/// Gets the values of one entity, which die when it returns. 0 goes on, a negative answer ends the walk.
#[doc(alias = "dcgmFieldValueEntityEnumeration_f")]
pub type ValuesCallback =
    unsafe extern "C" fn(EntityGroup, u32, *mut FieldValueV1, count: i32, user: *mut c_void) -> i32;

/// Gets a violation in 3.x: a pointer to [`PolicyCallbackV1`](crate::policy::PolicyCallbackV1).
#[doc(alias = "fpRecvUpdates")]
pub type PolicyCallback3 = unsafe extern "C" fn(*mut c_void) -> i32;

/// Gets a violation in 4.x, and what was handed over when it was registered.
#[doc(alias = "fpRecvUpdates")]
pub type PolicyCallback4 = unsafe extern "C" fn(*mut PolicyCallbackV2, user: u64) -> i32;

macro_rules! symbols {
    (
        required { $($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty;)* }
        optional {$(
            $(#[$optional_doc:meta])*
            fn $optional:ident($($optional_argument:ident: $optional_type:ty),* $(,)?) -> $optional_answer:ty;
        )*}
    ) => {
        /// Every function of the library that this crate knows. The library stays loaded, so they stay valid.
        ///
        /// Calling one asks of the caller what C asks: pointers that are valid for the struct they are said to point
        /// to, with its version word set, and texts that end with a zero byte.
        #[derive(Debug, Clone, Copy)]
        pub struct Symbols {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument: $type),*) -> $answer,)*
            $($(#[$optional_doc])* pub $optional:
                Option<unsafe extern "C" fn($($optional_argument: $optional_type),*) -> $optional_answer>,)*
        }

        impl Symbols {
            /// Resolves every function, or gives the names of those that are missing though every DCGM has them.
            pub(crate) fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                // SAFETY: the signatures are those of DCGM's ABI; the library is never unloaded.
                $(let $name = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                if $name.is_err() {
                    missing.push(stringify!($name));
                })*
                match ($($name,)*) {
                    ($(Ok($name),)*) => Ok(Self {
                        $($name: *$name,)*
                        // SAFETY: as above.
                        $($optional: unsafe { library.get(concat!(stringify!($optional), "\0").as_bytes()) }
                            .ok()
                            .map(|symbol| *symbol),)*
                    }),
                    _ => Err(missing),
                }
            }
        }
    };
}

symbols! {
    required {
        /// Starts the library; once per process.
        fn dcgmInit() -> i32;
        /// Ends it, with its embedded engine and connections.
        fn dcgmShutdown() -> i32;
        /// Starts an engine in this process.
        fn dcgmStartEmbedded_v2(parameters: *mut StartEmbeddedV2) -> i32;
        /// Ends it.
        fn dcgmStopEmbedded(engine: Handle) -> i32;
        /// Connects to `host[:port]`, or to the path of a Unix socket.
        fn dcgmConnect_v2(address: *const c_char, parameters: *mut ConnectV2, engine: *mut Handle) -> i32;
        /// Ends a connection.
        fn dcgmDisconnect(engine: Handle) -> i32;
        /// The version of the library.
        fn dcgmVersionInfo(info: *mut VersionInfoV2) -> i32;
        /// The version of the engine.
        fn dcgmHostengineVersionInfo(engine: Handle, info: *mut VersionInfoV2) -> i32;
        /// Whether the engine thinks itself healthy.
        fn dcgmHostengineIsHealthy(engine: Handle, health: *mut HostengineHealthV1) -> i32;
        /// A static text, or null for an unknown code.
        fn errorString(code: i32) -> *const c_char;
        /// Every GPU; the array holds 32.
        fn dcgmGetAllDevices(engine: Handle, gpus: *mut u32, count: *mut i32) -> i32;
        /// Every GPU that DCGM supports; the array holds 32.
        fn dcgmGetAllSupportedDevices(engine: Handle, gpus: *mut u32, count: *mut i32) -> i32;
        /// Every entity of a kind; `count` holds the capacity, then the number.
        fn dcgmGetEntityGroupEntities(
            engine: Handle, kind: EntityGroup, entities: *mut u32, count: *mut i32, flags: u32,
        ) -> i32;
        /// What a GPU is.
        fn dcgmGetDeviceAttributes(engine: Handle, gpu: u32, attributes: *mut DeviceAttributesV3) -> i32;
        /// Every MIG instance.
        fn dcgmGetGpuInstanceHierarchy(engine: Handle, hierarchy: *mut MigHierarchyV2) -> i32;
        /// What the engine thinks of a GPU.
        fn dcgmGetGpuStatus(engine: Handle, gpu: u32, status: *mut EntityStatus) -> i32;
        /// Makes a group.
        fn dcgmGroupCreate(engine: Handle, kind: GroupType, name: *const c_char, group: *mut Group) -> i32;
        /// Adds an entity.
        fn dcgmGroupAddEntity(engine: Handle, group: Group, kind: EntityGroup, id: u32) -> i32;
        /// Adds a GPU.
        fn dcgmGroupAddDevice(engine: Handle, group: Group, gpu: u32) -> i32;
        /// Takes an entity out.
        fn dcgmGroupRemoveEntity(engine: Handle, group: Group, kind: EntityGroup, id: u32) -> i32;
        /// What is in a group: [`GroupInfoV2`](crate::entity::GroupInfoV2) or
        /// [`GroupInfoV3`](crate::entity::GroupInfoV3).
        fn dcgmGroupGetInfo(engine: Handle, group: Group, info: *mut c_void) -> i32;
        /// Removes a group.
        fn dcgmGroupDestroy(engine: Handle, group: Group) -> i32;
        /// Makes a group of up to 128 fields.
        fn dcgmFieldGroupCreate(
            engine: Handle, count: i32, fields: *const FieldId, name: *const c_char, group: *mut FieldGroup,
        ) -> i32;
        /// Removes it.
        fn dcgmFieldGroupDestroy(engine: Handle, group: FieldGroup) -> i32;
        /// Watches fields.
        fn dcgmWatchFields(
            engine: Handle, group: Group, fields: FieldGroup, every_us: i64, keep_age_s: f64, keep_samples: i32,
        ) -> i32;
        /// Ends it.
        fn dcgmUnwatchFields(engine: Handle, group: Group, fields: FieldGroup) -> i32;
        /// Makes the engine read what is due; 1 waits for a full pass.
        fn dcgmUpdateAllFields(engine: Handle, wait: i32) -> i32;
        /// The newest values, from the cache.
        fn dcgmGetLatestValues_v2(
            engine: Handle, group: Group, fields: FieldGroup, callback: ValuesCallback, user: *mut c_void,
        ) -> i32;
        /// The newest values of entities, from the cache or the driver.
        fn dcgmEntitiesGetLatestValues(
            engine: Handle, entities: *mut Entity, entity_count: u32, fields: *mut FieldId, field_count: u32,
            flags: u32, values: *mut FieldValueV2,
        ) -> i32;
        /// Every kept value since a time.
        fn dcgmGetValuesSince_v2(
            engine: Handle, group: Group, fields: FieldGroup, since: i64, next: *mut i64, callback: ValuesCallback,
            user: *mut c_void,
        ) -> i32;
        /// Sets health watches.
        fn dcgmHealthSet_v2(engine: Handle, parameters: *mut HealthSetV2) -> i32;
        /// What is watched.
        fn dcgmHealthGet(engine: Handle, group: Group, systems: *mut HealthSystems) -> i32;
        /// Judges: [`HealthResponseV4`](crate::health::HealthResponseV4) or
        /// [`HealthResponseV5`](crate::health::HealthResponseV5).
        fn dcgmHealthCheck(engine: Handle, group: Group, response: *mut c_void) -> i32;
        /// Sets a policy.
        fn dcgmPolicySet(engine: Handle, group: Group, policy: *mut PolicyV1, status: usize) -> i32;
        /// The policies of a group's first GPUs.
        fn dcgmPolicyGet(engine: Handle, group: Group, count: i32, policies: *mut PolicyV1, status: usize) -> i32;
        /// Ends the calls back.
        fn dcgmPolicyUnregister(engine: Handle, group: Group, conditions: Conditions) -> i32;
        /// The modules.
        fn dcgmModuleGetStatuses(engine: Handle, statuses: *mut ModuleStatusesV1) -> i32;
        /// The engine's memory.
        fn dcgmIntrospectGetHostengineMemoryUsage(engine: Handle, memory: *mut IntrospectMemoryV1, wait: i32) -> i32;
        /// The engine's CPU time.
        fn dcgmIntrospectGetHostengineCpuUtilization(engine: Handle, cpu: *mut IntrospectCpuV1, wait: i32) -> i32;
        /// Profiling fields.
        fn dcgmProfGetSupportedMetricGroups(engine: Handle, groups: *mut MetricGroupsV3) -> i32;
        /// NVLinks: a struct of [`nvlink`](crate::nvlink).
        fn dcgmGetNvLinkLinkStatus(engine: Handle, status: *mut c_void) -> i32;
        /// What the library knows of a field, or null.
        fn DcgmFieldGetById(field: FieldId) -> *const RawFieldMeta;
        /// The same by the field's tag.
        fn DcgmFieldGetByTag(tag: *const c_char) -> *const RawFieldMeta;
        /// The name of a kind of entity.
        fn DcgmFieldsGetEntityGroupString(kind: EntityGroup) -> *const c_char;
    }
    optional {
        /// Connects by URI; from 4.5.
        fn dcgmConnect_v3(uri: *const c_char, parameters: *mut ConnectV3, engine: *mut Handle) -> i32;
        /// Registers for violations; in 3.x only.
        fn dcgmPolicyRegister(
            engine: Handle, group: Group, conditions: Conditions, begin: PolicyCallback3, finish: PolicyCallback3,
        ) -> i32;
        /// Registers for violations; in 4.x only.
        fn dcgmPolicyRegister_v2(
            engine: Handle, group: Group, conditions: Conditions, callback: PolicyCallback4, user: u64,
        ) -> i32;
    }
}
