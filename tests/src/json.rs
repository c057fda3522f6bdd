//! Looking into the JSON of `gpuctl`.

use serde_json::Value;

/// The rows of one of the flat arrays.
#[track_caller]
pub fn rows<'a>(answer: &'a Value, array: &str) -> Vec<&'a Value> {
    assert_eq!(answer["schema_version"], 1, "{answer:#}");
    answer[array].as_array().unwrap_or_else(|| panic!("no array `{array}` in {answer:#}")).iter().collect()
}

/// The only row in which `field` has this value.
#[track_caller]
pub fn row<'a>(answer: &'a Value, array: &str, field: &str, value: impl Into<Value>) -> &'a Value {
    let value = value.into();
    let mut found: Vec<_> = rows(answer, array).into_iter().filter(|row| row[field] == value).collect();
    assert_eq!(found.len(), 1, "rows of `{array}` with {field} = {value} in {answer:#}");
    found.remove(0)
}
