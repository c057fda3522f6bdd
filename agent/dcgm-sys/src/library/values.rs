//! Reading values: by callback from the cache, or into a buffer from the cache or the driver.

use std::any::Any;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;

use super::{Answer, Library};
use crate::entity::{Entity, EntityGroup, FieldGroup, Group, Handle};
use crate::error::DcgmError;
use crate::field::FieldId;
use crate::value::FieldValueV1;
use crate::value::FieldValueV2;

/// What ends a walk over values.
const STOP: i32 = -1;

/// Where values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What the engine read last. Only watched fields have values.
    Cache,
    /// The driver, now. Slow, and never for profiling fields.
    #[doc(alias = "DCGM_FV_FLAG_LIVE_DATA")]
    Live,
}

/// Memory for values, 4 KiB each, used again from read to read.
#[derive(Debug, Default)]
pub struct ValueBuffer {
    values: Box<[FieldValueV2]>,
}

impl ValueBuffer {
    /// So many values, their status an error until the library has filled them.
    fn take(&mut self, count: usize) -> &mut [FieldValueV2] {
        if self.values.len() < count {
            // SAFETY: all-zero bytes are such a value.
            self.values = unsafe { Box::new_zeroed_slice(count).assume_init() };
        }
        let values = self.values.get_mut(..count).unwrap_or_default();
        for value in &mut *values {
            value.status = DcgmError::NO_DATA.code;
        }
        values
    }
}

/// What a callback needs: the caller's closure, and what it panicked with.
struct Walk<'a> {
    each: &'a mut dyn FnMut(Entity, &[FieldValueV1]) -> ControlFlow<()>,
    panic: Option<Box<dyn Any + Send>>,
    stopped: bool,
}

impl Library {
    /// The newest cached values of every entity of a group, in batches of one entity. A field that is not watched comes
    /// with the status NOT_WATCHED.
    #[doc(alias = "dcgmGetLatestValues_v2")]
    pub fn latest_values(
        &self,
        engine: Handle,
        group: Group,
        fields: FieldGroup,
        mut each: impl FnMut(Entity, &[FieldValueV1]) -> ControlFlow<()>,
    ) -> Answer<()> {
        let call = self.symbols.dcgmGetLatestValues_v2;
        // SAFETY: the callback gets the pointer to its walk, on this thread, before the call returns.
        walk(&mut each, |user| unsafe { call(engine, group, fields, each_batch, user) })
    }

    /// Every kept value since a time in microseconds since 1970, 0 for all. Gives the time to ask from next.
    #[doc(alias = "dcgmGetValuesSince_v2")]
    pub fn values_since(
        &self,
        engine: Handle,
        group: Group,
        fields: FieldGroup,
        since: i64,
        mut each: impl FnMut(Entity, &[FieldValueV1]) -> ControlFlow<()>,
    ) -> Answer<i64> {
        let call = self.symbols.dcgmGetValuesSince_v2;
        let mut next = since;
        let place = &raw mut next;
        // SAFETY: as above, and a place for the next time.
        walk(&mut each, |user| unsafe { call(engine, group, fields, since, place, each_batch, user) })?;
        Ok(next)
    }

    /// Every field of every entity, in the order asked for, each with its own status.
    ///
    /// Profiling fields are refused with FIELD_UNSUPPORTED_BY_API when read live: DCGM 4 would crash.
    #[doc(alias = "dcgmEntitiesGetLatestValues")]
    pub fn entity_values<'a>(
        &self,
        engine: Handle,
        entities: &[Entity],
        fields: &[FieldId],
        source: Source,
        buffer: &'a mut ValueBuffer,
    ) -> Answer<&'a [FieldValueV2]> {
        if source == Source::Live && fields.iter().any(|field| field.is_profiling()) {
            return Err(DcgmError::FIELD_UNSUPPORTED_BY_API);
        }
        let entity_count = u32::try_from(entities.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
        let field_count = u32::try_from(fields.len()).map_err(|_| DcgmError::MAX_LIMIT)?;
        let values = buffer.take(entities.len().checked_mul(fields.len()).ok_or(DcgmError::MAX_LIMIT)?);
        // The C arguments are not const, so they get copies.
        let (mut entities, mut fields) = (entities.to_vec(), fields.to_vec());
        let flags = u32::from(source == Source::Live);
        let call = self.symbols.dcgmEntitiesGetLatestValues;
        // SAFETY: as many entities and fields as the counts say, and a value for every pair of them.
        let code = unsafe {
            call(
                engine,
                entities.as_mut_ptr(),
                entity_count,
                fields.as_mut_ptr(),
                field_count,
                flags,
                values.as_mut_ptr(),
            )
        };
        DcgmError::check(code).map(|()| &*values)
    }
}

fn walk(
    each: &mut dyn FnMut(Entity, &[FieldValueV1]) -> ControlFlow<()>,
    call: impl FnOnce(*mut c_void) -> i32,
) -> Answer<()> {
    let mut walk = Walk { each, panic: None, stopped: false };
    let code = call((&raw mut walk).cast::<c_void>());
    if let Some(panic) = walk.panic {
        resume_unwind(panic);
    }
    // What the call answers when it was told to stop differs; it is what the caller wanted.
    if walk.stopped { Ok(()) } else { DcgmError::check(code) }
}

unsafe extern "C" fn each_batch(
    group: EntityGroup,
    id: u32,
    values: *mut FieldValueV1,
    count: i32,
    user: *mut c_void,
) -> i32 {
    // SAFETY: the library hands back the pointer that `walk` gave it, during that call and on its thread.
    let walk = unsafe { &mut *user.cast::<Walk<'_>>() };
    if walk.stopped {
        return STOP;
    }
    let values = match usize::try_from(count) {
        // SAFETY: the library gives as many values as it says, which live until this returns.
        Ok(count) if count > 0 && !values.is_null() => unsafe { slice::from_raw_parts(values, count) },
        _ => &[],
    };
    let each = AssertUnwindSafe(|| (walk.each)(Entity { group, id }, values));
    match catch_unwind(each) {
        Ok(ControlFlow::Continue(())) => 0,
        Ok(ControlFlow::Break(())) => {
            walk.stopped = true;
            STOP
        }
        Err(panic) => {
            walk.panic = Some(panic);
            walk.stopped = true;
            STOP
        }
    }
}
