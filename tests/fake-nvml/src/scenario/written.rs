//! From the text of a scenario file to a [`Scenario`]: `model` and `without` are resolved here.

use toml::{Table, Value};

use super::{Device, Scenario};

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
    Value::Table(table).try_into().map_err(|e| format!("{e}"))
}

fn resolve(index: usize, mut written: Table) -> Result<Table, String> {
    let without = written.remove("without").unwrap_or_else(|| Value::Array(Vec::new()));
    let mut resolved = match written.remove("model") {
        None => Table::new(),
        Some(Value::String(model)) => {
            let index = u32::try_from(index).map_err(|e| e.to_string())?;
            let device = Device::model(&model, index).ok_or_else(|| format!("unknown model `{model}`"))?;
            Table::try_from(device).map_err(|e| e.to_string())?
        }
        Some(other) => return Err(format!("`model` is `{other}`, not a text")),
    };
    overlay(&mut resolved, written);
    for name in without.as_array().ok_or("`without` is not an array")? {
        let name = name.as_str().ok_or("`without` holds something that is not a text")?;
        resolved.remove(name).ok_or_else(|| format!("`without` names `{name}`, which the device does not have"))?;
    }
    Ok(resolved)
}

fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::scenario::{Event, Process, Rule};

    #[test]
    fn a_model_is_the_base_and_fields_override_it() {
        let scenario = parse(
            "[[devices]]\nmodel = 'h200'\ntemperature = 71\nwithout = ['power_mw']\nclocks = { sm = 1200 }\n\
             [[devices.processes]]\npid = 7\nmemory_bytes = 5\nkinds = ['C', 'G']\n",
        )
        .unwrap();
        let device = &scenario.devices[0];
        assert_eq!(device.temperature, Some(71));
        assert_eq!(device.power_mw, None);
        assert_eq!(device.clocks.sm, Some(1200));
        assert_eq!(device.clocks.memory, Some(3201));
        assert_eq!(device.processes[0].memory_bytes, Some(5));
    }

    #[test]
    fn writing_and_reading_gives_the_same_scenario() {
        let mut scenario = Scenario { init: Some(Code::DRIVER_NOT_LOADED), ..Scenario::default() };
        scenario.devices = vec![Device::h200(0), Device::a100_mig(1), Device::k80(2)];
        scenario.devices[0].processes.push(Process::busy(1, 2, 3));
        scenario.rules.push(Rule { function: "*".into(), code: Some(Code(4242)), ..Rule::default() });
        scenario.events.push(Event { id: 1, device: "GPU-1".into(), kind: 8, data: 79, replay: true });
        assert_eq!(parse(&scenario.to_toml().unwrap()).unwrap(), scenario);
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, part) in [
            ("devices = 3", "not an array"),
            ("[[devices]]\nmodel = 'voodoo'", "unknown model `voodoo`"),
            ("[[devices]]\nmodel = 'k80'\ntemprature = 1", "temprature"),
            ("[[devices]]\nmodel = 'k80'\nwithout = ['jpeg']", "`jpeg`"),
            ("init = 'BROKEN'", "`BROKEN`"),
            ("rules = [{ function = '*', when = 1 }]", "when"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
