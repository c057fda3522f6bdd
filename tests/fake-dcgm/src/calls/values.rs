//! Watching fields and reading their values.

use std::ffi::c_void;

use dcgm_sys::symbols::ValuesCallback;
use dcgm_sys::value::{FieldValueV1, FieldValueV2};
use dcgm_sys::{DcgmError, Entity, FieldGroup, FieldId, Group, Handle, Major};

use super::{engine_calls, exports};
use crate::engine::Rate;
use crate::gate::{Answer, Call, code, on_engine};
use crate::output::{get_all, put, put_all};
use crate::readings::{Sample, read};
use crate::registry::{EMBEDDED, registry};

/// The flag that asks the driver instead of the cache.
const LIVE: u32 = 1;
/// Microseconds in a second.
const SECOND: f64 = 1e6;

engine_calls! {
    fn dcgmWatchFields(
        call, group: Group, fields: FieldGroup, every_us: i64, keep_age_s: f64, keep_samples: i32,
    ) {
        if every_us <= 0 || keep_age_s.is_nan() || keep_age_s < 0.0 {
            return Err(DcgmError::BAD_PARAMETER);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        let keep = (keep_age_s * SECOND) as i64;
        let keep_samples = usize::try_from(keep_samples).map_err(|_| DcgmError::BAD_PARAMETER)?;
        let rate = Rate { every: every_us, keep, keep_samples };
        call.engine.watch(call.scenario, (group, fields), rate, call.now)
    }

    fn dcgmUnwatchFields(call, group: Group, fields: FieldGroup) {
        call.engine.unwatch(group, fields);
        Ok(())
    }

    fn dcgmUpdateAllFields(call, _wait: i32) {
        call.engine.update(call.scenario, call.now);
        Ok(())
    }
}

exports! {
    fn dcgmGetLatestValues_v2(
        engine: Handle, group: Group, fields: FieldGroup, callback: ValuesCallback, user: *mut c_void,
    ) -> i32 {
        let found = on_engine("dcgmGetLatestValues_v2", engine, |call| {
            every_pair(call, group, fields, |call, entity, field| Ok(vec![call.engine.latest(entity, field)]))
        });
        code(found.map(|samples| call_back(&samples, callback, user)))
    }

    fn dcgmGetValuesSince_v2(
        engine: Handle, group: Group, fields: FieldGroup, since: i64, next: *mut i64, callback: ValuesCallback,
        user: *mut c_void,
    ) -> i32 {
        let found = on_engine("dcgmGetValuesSince_v2", engine, |call| {
            every_pair(call, group, fields, |call, entity, field| call.engine.since(entity, field, since))
        });
        code(found.and_then(|samples| {
            let newest = samples.iter().map(|(_, _, sample)| sample.at + 1).max();
            put(next, newest.unwrap_or(since))?;
            call_back(&samples, callback, user);
            Ok(())
        }))
    }

    fn dcgmEntitiesGetLatestValues(
        engine: Handle, entities: *mut Entity, entity_count: u32, fields: *mut FieldId, field_count: u32, flags: u32,
        values: *mut FieldValueV2,
    ) -> i32 {
        let found = on_engine("dcgmEntitiesGetLatestValues", engine, |call| {
            let count = |count: u32| usize::try_from(count).map_err(|_| DcgmError::MAX_LIMIT);
            let (entities, fields) = (get_all(entities, count(entity_count)?)?, get_all(fields, count(field_count)?)?);
            let live = flags & LIVE != 0;
            if live && call.major() == Major::V4 && fields.iter().any(|field| field.is_profiling()) {
                return Ok(None);
            }
            let pairs = entities.iter().flat_map(|entity| fields.iter().map(move |field| (*entity, *field)));
            let sampled = pairs.map(|(entity, field)| {
                let now = || read(call.scenario, entity, field, call.now);
                let sample = if live { now() } else { call.engine.latest(entity, field) };
                sample.with_entity(entity, field)
            });
            Ok(Some(sampled.collect()))
        });
        code(found.and_then(|found| match found {
            Some(found) => put_all(values, found),
            None => crash(engine),
        }))
    }
}

/// What the real engine does when a profiling field is read live: it dies, and this process with it if it is embedded.
fn crash(engine: Handle) -> Answer {
    if engine == EMBEDDED {
        std::process::abort();
    }
    registry().crash_remote();
    Err(DcgmError::CONNECTION_NOT_VALID)
}

type Found = Vec<(Entity, FieldId, Sample)>;

fn every_pair(
    call: &mut Call<'_>,
    group: Group,
    fields: FieldGroup,
    of: impl Fn(&Call<'_>, Entity, FieldId) -> Answer<Vec<Sample>>,
) -> Answer<Found> {
    let (entities, fields) = (call.engine.members(call.scenario, group)?, call.engine.fields(fields)?);
    if entities.is_empty() {
        return Err(DcgmError::GROUP_IS_EMPTY);
    }
    let mut found = Vec::new();
    for entity in entities {
        for field in &fields {
            found.extend(of(call, entity, *field)?.into_iter().map(|sample| (entity, *field, sample)));
        }
    }
    Ok(found)
}

/// Calls back value by value, on the calling thread, without the lock. A value dies when the callback returns.
fn call_back(found: &Found, callback: ValuesCallback, user: *mut c_void) {
    const DEAD: u8 = 0x5a;
    let mut value: Box<FieldValueV1> = dcgm_sys::version::Zeroable::boxed_zeroed();
    for (entity, field, sample) in found {
        *value = sample.without_entity(*field);
        // SAFETY: the client gave a function of this type; the value outlives the call.
        let answer = unsafe { callback(entity.group, entity.id, &raw mut *value, 1, user) };
        value.value.blob = [DEAD; 4096];
        if answer < 0 {
            break;
        }
    }
}
