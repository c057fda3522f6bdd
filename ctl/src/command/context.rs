//! `context`: which fleet to ask.

use crate::cli::{Connection, Context};
use crate::config::{Config, ContextEntry, Environment};
use crate::exit::{CtlError, Exit, Result};
use crate::screen::print;

/// Changes or shows the contexts.
pub(crate) fn run(command: Context, flags: Connection) -> Result<Exit> {
    let mut config = Config::load()?;
    match command {
        Context::List => list(&config)?,
        Context::Show { name } => {
            let name = name.or(flags.context).or(Environment::read().context).or(config.context.clone());
            let name =
                name.ok_or_else(|| CtlError::usage("no context is in use; name one, or `gpuctl context use NAME`"))?;
            let text = toml::to_string(config.entry(&name)?).map_err(|error| CtlError::failed(error.to_string()))?;
            print(&format!("# {name}\n{text}"))?;
        }
        Context::Use { name } => {
            config.entry(&name)?;
            config.context = Some(name);
            config.save()?;
        }
        Context::Set { name } => {
            set(&mut config, &name, flags)?;
            config.save()?;
        }
        Context::Remove { name } => {
            config.entry(&name)?;
            config.contexts.remove(&name);
            if config.context.as_deref() == Some(&name) {
                config.context = None;
            }
            config.save()?;
        }
    }
    Ok(Exit::Ok)
}

fn list(config: &Config) -> Result<()> {
    let line = |(name, entry): (&String, &ContextEntry)| {
        let mark = if config.context.as_ref() == Some(name) { '*' } else { ' ' };
        let address = entry.aggregator.as_ref().or(entry.agent.as_ref()).map_or("", String::as_str);
        format!("{mark} {name}  {address}\n")
    };
    print(&config.contexts.iter().map(line).collect::<String>())
}

/// What is given replaces what was there; a first context is used at once.
fn set(config: &mut Config, name: &str, flags: Connection) -> Result<()> {
    if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(CtlError::usage(format!("`{}` cannot name a context", name.escape_debug())));
    }
    let entry = config.contexts.entry(name.to_owned()).or_default();
    match (flags.aggregator, flags.agent) {
        (Some(aggregator), _) => *entry = ContextEntry { aggregator: Some(aggregator), agent: None, ..entry.clone() },
        (None, Some(agent)) => *entry = ContextEntry { aggregator: None, agent: Some(agent), ..entry.clone() },
        (None, None) if entry.aggregator.is_none() && entry.agent.is_none() => {
            return Err(CtlError::usage("give --aggregator HOST:PORT, or --agent HOST:PORT"));
        }
        (None, None) => {}
    }
    if let Some(tls_dir) = flags.tls_dir {
        entry.tls_dir = Some(std::path::absolute(&tls_dir).unwrap_or(tls_dir));
    }
    config.context.get_or_insert_with(|| name.to_owned());
    Ok(())
}
