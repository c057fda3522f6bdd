//! Why clocks are below what was asked for: the bits of [`FieldId::DEV_CLOCK_THROTTLE_REASONS`](crate::FieldId).

use crate::code::c_mask;

c_mask! {
    /// Clock event reasons.
    pub struct ClockEvents(u64) {
        /// The device is idle.
        IDLE = 0x1;
        /// Application clocks are set.
        APPLICATION_CLOCKS = 0x2;
        /// Software holds the power limit: a card that works hard.
        SOFTWARE_POWER_CAP = 0x4;
        /// The hardware slows down.
        HARDWARE_SLOWDOWN = 0x8;
        /// Another device of the sync boost group.
        SYNC_BOOST = 0x10;
        /// Software holds the temperature limit.
        SOFTWARE_THERMAL = 0x20;
        /// The hardware holds the temperature limit.
        HARDWARE_THERMAL = 0x40;
        /// The power supply asked for less.
        HARDWARE_POWER_BRAKE = 0x80;
        /// A display is driven.
        DISPLAY_CLOCKS = 0x100;
    }
}
