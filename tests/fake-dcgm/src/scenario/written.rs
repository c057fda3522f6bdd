//! From the text of a scenario file to a [`Scenario`]: `model` is resolved here, and what has no meaning is refused.

use dcgm_sys::{FieldId, Major, ValueType};
use toml::{Table, Value};

use super::{Device, Fields, Reading, Scenario, parse_version};

pub(super) fn parse(text: &str) -> Result<Scenario, String> {
    let mut table: Table = text.parse().map_err(|e| format!("{e}"))?;
    if let Some(devices) = table.get_mut("devices") {
        let devices = devices.as_array_mut().ok_or("`devices` is not an array")?;
        for (index, device) in devices.iter_mut().enumerate() {
            let written = device.as_table_mut().ok_or_else(|| format!("device {index} is not a table"))?;
            let resolved = resolve(index, std::mem::take(written)).map_err(|e| format!("device {index}: {e}"))?;
            *written = resolved;
        }
    }
    let scenario: Scenario = Value::Table(table).try_into().map_err(|e| format!("{e}"))?;
    check(&scenario)?;
    Ok(scenario)
}

fn check(scenario: &Scenario) -> Result<(), String> {
    let versions = std::iter::once(&scenario.version).chain(scenario.engine.as_ref().map(|engine| &engine.version));
    for version in versions {
        let known = parse_version(version).and_then(|version| Major::from_number(version.major));
        known.ok_or_else(|| format!("`{version}` is not a version of DCGM 3 or 4"))?;
    }
    check_fields(&scenario.fields)?;
    for (index, device) in scenario.devices.iter().enumerate() {
        let instances = device.mig.iter().map(|instance| &instance.fields);
        for fields in std::iter::once(&device.fields).chain(instances) {
            check_fields(fields).map_err(|e| format!("device {index}: {e}"))?;
        }
    }
    Ok(())
}

fn check_fields(fields: &Fields) -> Result<(), String> {
    for (field, reading) in fields {
        let kind = crate::fields::kind(field.0).ok_or_else(|| format!("there is no field {}", field.0.0))?;
        let fits = match reading {
            Reading::Int(_) => kind != ValueType::TEXT,
            Reading::Double(_) => kind == ValueType::DOUBLE,
            Reading::Text(_) => kind == ValueType::TEXT,
            Reading::Blank { .. } | Reading::Status { .. } => true,
        };
        if !fits {
            return Err(format!("field {} does not hold what `{reading:?}` is", field.0.0));
        }
    }
    Ok(())
}

fn resolve(index: usize, mut written: Table) -> Result<Table, String> {
    let mut resolved = match written.remove("model") {
        None => Table::new(),
        Some(Value::String(model)) => {
            let index = u32::try_from(index).map_err(|e| e.to_string())?;
            let device = Device::model(&model, index).ok_or_else(|| format!("unknown model `{model}`"))?;
            Table::try_from(device).map_err(|e| e.to_string())?
        }
        Some(other) => return Err(format!("`model` is `{other}`, not a text")),
    };
    if let Some(Value::Table(over)) = written.get_mut("fields") {
        let over = by_tag(std::mem::take(over))?;
        if let Some(Value::Table(base)) = resolved.get_mut("fields") {
            base.extend(over);
            written.remove("fields");
        } else {
            written.insert("fields".to_owned(), Value::Table(over));
        }
    }
    resolved.extend(written);
    Ok(resolved)
}

/// The same fields under their tags, so that one written by its number overrides one written by its tag.
fn by_tag(fields: Table) -> Result<Table, String> {
    let mut tagged = Table::new();
    for (key, value) in fields {
        let facts = key.parse().ok().and_then(|number| FieldId(number).facts());
        let tag = facts.map_or(key, |facts| facts.tag.to_owned());
        if tagged.insert(tag.clone(), value).is_some() {
            return Err(format!("the field `{tag}` is there twice"));
        }
    }
    Ok(tagged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Event, FieldName, Incident, Name, RemoteEngine, Rule, Violation};
    use dcgm_sys::error::DcgmError;
    use dcgm_sys::policy::Conditions;

    #[test]
    fn a_model_is_the_base_and_fields_override_it() {
        let scenario = parse(
            "[[devices]]\nmodel = 'h200'\n[devices.fields]\ngpu_temp = 71\n155 = { blank = 'NOT_SUPPORTED' }\n\
             449 = { status = 'NO_DATA' }\n",
        )
        .unwrap();
        let fields = &scenario.devices[0].fields;
        assert_eq!(fields[&FieldName(FieldId::DEV_GPU_TEMP)], Reading::Int(71));
        assert_eq!(fields[&FieldName(FieldId::DEV_POWER_USAGE)], Reading::NOT_SUPPORTED);
        assert_eq!(fields[&FieldName(FieldId(449))], Reading::status(DcgmError::NO_DATA));
        assert_eq!(fields[&FieldName(FieldId::DEV_MEMORY_TEMP)], Reading::Int(52));
    }

    #[test]
    fn writing_and_reading_gives_the_same_scenario() {
        let scenario = Scenario {
            version: "3.3.9".to_owned(),
            init: Some(Name(DcgmError::INIT)),
            engine: Some(RemoteEngine::default()),
            devices: vec![Device::h200(0), Device::v100(1)],
            incidents: vec![Incident::at_power_limit(0), Incident::row_remap_failure(1)],
            violations: vec![Violation {
                id: 1,
                device: 0,
                condition: Name(Conditions::XID),
                number: 79,
                location: None,
                field: None,
                at_us: Some(5),
                replay: true,
            }],
            events: vec![Event {
                id: 1,
                device: 0,
                field: FieldName(FieldId::DEV_XID_ERRORS),
                value: 79,
                replay: false,
            }],
            rules: vec![Rule { function: "*".into(), code: Some(Name(DcgmError { code: -4242 })), ..Rule::default() }],
            ..Scenario::default()
        };
        assert_eq!(parse(&scenario.to_toml().unwrap()).unwrap(), scenario);
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, part) in [
            ("devices = 3", "not an array"),
            ("version = '5.0.0'", "`5.0.0` is not a version"),
            ("[engine]\nversion = 'new'", "`new` is not a version"),
            ("[[devices]]\nmodel = 'voodoo'", "unknown model `voodoo`"),
            ("[[devices]]\nmodel = 'h200'\ntemprature = 1", "temprature"),
            ("[[devices]]\nfields = { gpu_tmp = 1 }", "`gpu_tmp`"),
            ("[[devices]]\nfields = { gpu_temp = 'hot' }", "field 150 does not hold"),
            ("[[devices]]\nfields = { 60000 = 1 }", "no field 60000"),
            ("[[devices]]\nfields = { 150 = 1, gpu_temp = 2 }", "`gpu_temp` is there twice"),
            ("init = 'BROKEN'", "`BROKEN`"),
            ("rules = [{ function = '*', when = 1 }]", "when"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
