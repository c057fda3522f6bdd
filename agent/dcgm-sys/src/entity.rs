//! What readings are about: entities, and groups of them.

use crate::code::{c_enum, layout, versioned};
use crate::version::Zeroable;

c_enum! {
    /// The kind of an entity.
    #[doc(alias = "dcgm_field_entity_group_t")]
    pub struct EntityGroup(i32) {
        /// The host as a whole.
        #[doc(alias = "DCGM_FE_NONE")]
        NONE = 0;
        /// A physical GPU.
        #[doc(alias = "DCGM_FE_GPU")]
        GPU = 1;
        /// A virtual GPU.
        #[doc(alias = "DCGM_FE_VGPU")]
        VGPU = 2;
        /// An NVSwitch.
        #[doc(alias = "DCGM_FE_SWITCH")]
        SWITCH = 3;
        /// A MIG GPU instance.
        #[doc(alias = "DCGM_FE_GPU_I")]
        GPU_INSTANCE = 4;
        /// A MIG compute instance.
        #[doc(alias = "DCGM_FE_GPU_CI")]
        COMPUTE_INSTANCE = 5;
        /// A link of a GPU or switch; see [`LinkId`].
        #[doc(alias = "DCGM_FE_LINK")]
        LINK = 6;
        /// A CPU.
        #[doc(alias = "DCGM_FE_CPU")]
        CPU = 7;
        /// A CPU core.
        #[doc(alias = "DCGM_FE_CPU_CORE")]
        CPU_CORE = 8;
        /// A network adapter; from 4.0.
        #[doc(alias = "DCGM_FE_CONNECTX")]
        CONNECTX = 9;
    }
}

c_enum! {
    /// What the engine thinks of an entity.
    #[doc(alias = "DcgmEntityStatus_t")]
    pub struct EntityStatus(i32) {
        /// Not known.
        UNKNOWN = 0;
        /// In order.
        OK = 1;
        /// Not supported by DCGM.
        UNSUPPORTED = 2;
        /// There and cannot be reached.
        INACCESSIBLE = 3;
        /// Off the bus.
        LOST = 4;
        /// Made up by a test.
        FAKE = 5;
        /// Switched off.
        DISABLED = 6;
        /// Detached from the engine.
        DETACHED = 7;
    }
}

c_enum! {
    /// What a new group holds at first.
    #[doc(alias = "dcgmGroupType_t")]
    pub struct GroupType(i32) {
        /// Every GPU.
        #[doc(alias = "DCGM_GROUP_DEFAULT")]
        ALL_GPUS = 0;
        /// Nothing.
        #[doc(alias = "DCGM_GROUP_EMPTY")]
        EMPTY = 1;
        /// Every NVSwitch.
        #[doc(alias = "DCGM_GROUP_DEFAULT_NVSWITCHES")]
        ALL_SWITCHES = 2;
        /// Every GPU instance.
        #[doc(alias = "DCGM_GROUP_DEFAULT_INSTANCES")]
        ALL_GPU_INSTANCES = 3;
        /// Every compute instance.
        #[doc(alias = "DCGM_GROUP_DEFAULT_COMPUTE_INSTANCES")]
        ALL_COMPUTE_INSTANCES = 4;
        /// Everything.
        #[doc(alias = "DCGM_GROUP_DEFAULT_EVERYTHING")]
        EVERYTHING = 5;
    }
}

/// A connection to an engine.
#[doc(alias = "dcgmHandle_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub usize);

/// A group of entities.
#[doc(alias = "dcgmGpuGrp_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Group(pub usize);

impl Group {
    /// Every GPU, always.
    #[doc(alias = "DCGM_GROUP_ALL_GPUS")]
    pub const ALL_GPUS: Self = Self(0x7fff_ffff);
    /// Every NVSwitch.
    #[doc(alias = "DCGM_GROUP_ALL_NVSWITCHES")]
    pub const ALL_SWITCHES: Self = Self(0x7fff_fffe);
    /// Every GPU instance.
    #[doc(alias = "DCGM_GROUP_ALL_INSTANCES")]
    pub const ALL_GPU_INSTANCES: Self = Self(0x7fff_fffd);
    /// Every compute instance.
    #[doc(alias = "DCGM_GROUP_ALL_COMPUTE_INSTANCES")]
    pub const ALL_COMPUTE_INSTANCES: Self = Self(0x7fff_fffc);
    /// Every entity.
    #[doc(alias = "DCGM_GROUP_ALL_ENTITIES")]
    pub const ALL_ENTITIES: Self = Self(0x7fff_fffb);
    /// No group.
    #[doc(alias = "DCGM_GROUP_NULL")]
    pub const NULL: Self = Self(0x7fff_fffa);
}

/// A group of fields.
#[doc(alias = "dcgmFieldGrp_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct FieldGroup(pub usize);

/// An entity.
#[doc(alias = "dcgmGroupEntityPair_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Entity {
    /// Its kind.
    pub group: EntityGroup,
    /// Its number among those of its kind.
    pub id: u32,
}

impl Entity {
    /// The GPU of this number.
    pub const fn gpu(id: u32) -> Self {
        Self { group: EntityGroup::GPU, id }
    }
}

layout!(Entity: size 8, align 4; group @ 0, 4; id @ 4, 4;);

/// The number of a link, taken apart.
#[doc(alias = "dcgm_link_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId {
    /// [`EntityGroup::GPU`] or [`EntityGroup::SWITCH`].
    pub owner: Entity,
    /// The link's index there.
    pub index: u16,
}

impl LinkId {
    /// Packs it the way DCGM numbers links. `None` when the owner's number is beyond 255 or its kind has no links.
    pub fn pack(self) -> Option<u32> {
        let id = u8::try_from(self.owner.id).ok()?;
        let kind = match self.owner.group {
            EntityGroup::GPU => 1,
            EntityGroup::SWITCH => 3,
            _ => return None,
        };
        Some(u32::from_le_bytes([kind, self.index.to_le_bytes()[0], self.index.to_le_bytes()[1], id]))
    }

    /// Takes a link's number apart. `None` when it is of neither a GPU nor a switch.
    pub fn unpack(raw: u32) -> Option<Self> {
        let [kind, low, high, id] = raw.to_le_bytes();
        let group = match kind {
            1 => EntityGroup::GPU,
            3 => EntityGroup::SWITCH,
            _ => return None,
        };
        Some(Self { owner: Entity { group, id: u32::from(id) }, index: u16::from_le_bytes([low, high]) })
    }
}

/// A group's members, as 3.x tells them.
#[doc(alias = "dcgmGroupInfo_v2")]
#[repr(C)]
pub struct GroupInfoV2 {
    /// The version word.
    pub version: u32,
    /// How many entities are filled.
    pub count: u32,
    /// The group's name.
    pub name: [u8; 256],
    /// The entities.
    pub entities: [Entity; 64],
}

/// A group's members, as 4.x tells them.
#[doc(alias = "dcgmGroupInfo_v3")]
#[repr(C)]
pub struct GroupInfoV3 {
    /// The version word.
    pub version: u32,
    /// How many entities are filled.
    pub count: u32,
    /// The group's name.
    pub name: [u8; 256],
    /// The entities.
    pub entities: [Entity; 1024],
}

layout!(GroupInfoV2: size 776, align 4; version @ 0, 4; count @ 4, 4; name @ 8, 256; entities @ 264, 512;);
layout!(GroupInfoV3: size 8456, align 4; version @ 0, 4; count @ 4, 4; name @ 8, 256; entities @ 264, 8192;);
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for GroupInfoV2 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for GroupInfoV3 {}
versioned! {
    GroupInfoV2 = 2 => 0x0200_0308;
    GroupInfoV3 = 3 => 0x0300_2108;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_numbers_are_packed_low_bits_first() {
        let link = LinkId { owner: Entity::gpu(7), index: 17 };
        assert_eq!(link.pack(), Some(0x0700_1101));
        assert_eq!(LinkId::unpack(0x0700_1101), Some(link));
        assert_eq!(LinkId::unpack(0x0700_1109), None);
        assert_eq!(LinkId { owner: Entity::gpu(256), index: 0 }.pack(), None);
    }

    #[test]
    fn unknown_numbers_keep_their_number() {
        assert_eq!(format!("{:?} {:?}", EntityGroup::GPU, EntityGroup(77)), "GPU EntityGroup(77)");
        assert_eq!(EntityStatus(99).name(), None);
    }
}
