//! The state of every NVLink of GPUs and NVSwitches. Three versions of the struct are in use.

use crate::code::{c_enum, layout, versioned};
use crate::version::Zeroable;

c_enum! {
    /// The state of one link.
    #[doc(alias = "dcgmNvLinkLinkState_t")]
    pub struct LinkState(i32) {
        /// There is no such link.
        NOT_SUPPORTED = 0;
        /// Switched off.
        DISABLED = 1;
        /// Down.
        DOWN = 2;
        /// Up.
        UP = 3;
    }
}

macro_rules! link_status {
    ($($(#[$doc:meta])* $name:ident = $links:literal links: size $size:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// The GPU's or switch's number.
            pub id: u32,
            /// The state of each link.
            pub links: [LinkState; $links],
        }

        const _: () = assert!(size_of::<$name>() == $size && std::mem::offset_of!($name, links) == 4);
    )*};
}

link_status! {
    /// The links of a GPU, up to 4.5.
    #[doc(alias = "dcgmNvLinkGpuLinkStatus_v3")]
    GpuLinksV3 = 18 links: size 76;
    /// The links of a GPU, from 4.6.
    #[doc(alias = "dcgmNvLinkGpuLinkStatus_v4")]
    GpuLinksV4 = 36 links: size 148;
    /// The links of an NVSwitch in 3.x.
    #[doc(alias = "dcgmNvLinkNvSwitchLinkStatus_t")]
    SwitchLinks3 = 64 links: size 260;
    /// The links of an NVSwitch in 4.x.
    #[doc(alias = "dcgmNvLinkNvSwitchLinkStatus_t")]
    SwitchLinks4 = 256 links: size 1028;
}

macro_rules! nvlink_status {
    ($($(#[$doc:meta])* $name:ident = [$gpu:ident, $switch:ident];)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            /// The version word.
            pub version: u32,
            /// How many GPUs are filled.
            pub gpu_count: u32,
            /// The GPUs.
            pub gpus: [$gpu; 32],
            /// How many switches are filled.
            pub switch_count: u32,
            /// The switches.
            pub switches: [$switch; 12],
        }

        // SAFETY: numbers and arrays of them.
        unsafe impl Zeroable for $name {}

        impl $name {
            /// Number and links of every GPU that is filled.
            pub fn gpu_links(&self) -> impl Iterator<Item = (u32, &[LinkState])> {
                let count = usize::try_from(self.gpu_count).unwrap_or(usize::MAX);
                self.gpus.iter().take(count).map(|gpu| (gpu.id, &gpu.links[..]))
            }

            /// Number and links of every switch that is filled.
            pub fn switch_links(&self) -> impl Iterator<Item = (u32, &[LinkState])> {
                let count = usize::try_from(self.switch_count).unwrap_or(usize::MAX);
                self.switches.iter().take(count).map(|switch| (switch.id, &switch.links[..]))
            }
        }
    )*};
}

nvlink_status! {
    /// For 3.x.
    #[doc(alias = "dcgmNvLinkStatus_v3")]
    NvlinkStatusV3 = [GpuLinksV3, SwitchLinks3];
    /// For 4.0 to 4.5; 4.6 understands it too.
    #[doc(alias = "dcgmNvLinkStatus_v4")]
    NvlinkStatusV4 = [GpuLinksV3, SwitchLinks4];
    /// From 4.6.
    #[doc(alias = "dcgmNvLinkStatus_v5")]
    NvlinkStatusV5 = [GpuLinksV4, SwitchLinks4];
}

layout!(NvlinkStatusV3: size 5564, align 4;
    version @ 0, 4; gpu_count @ 4, 4; gpus @ 8, 2432; switch_count @ 2440, 4; switches @ 2444, 3120;
);
layout!(NvlinkStatusV4: size 14780, align 4;
    version @ 0, 4; gpu_count @ 4, 4; gpus @ 8, 2432; switch_count @ 2440, 4; switches @ 2444, 12336;
);
layout!(NvlinkStatusV5: size 17084, align 4;
    version @ 0, 4; gpu_count @ 4, 4; gpus @ 8, 4736; switch_count @ 4744, 4; switches @ 4748, 12336;
);
versioned! {
    NvlinkStatusV3 = 3 => 0x0300_15bc;
    NvlinkStatusV4 = 4 => 0x0400_39bc;
    NvlinkStatusV5 = 5 => 0x0500_42bc;
}
