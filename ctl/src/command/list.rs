//! `ps`, `devices`, `hosts`: lists, once or again and again.

use std::time::Duration;

use crate::cli::{Format, List};
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::output::{Order, Records, render};
use crate::screen::{Screen, print, tell};
use crate::source::{Source, Want};
use crate::view::{Filter, Following, View};

/// Prints a list.
pub(crate) async fn run(endpoint: &Endpoint, list: List, records: Records, all: bool, screen: Screen) -> Result<Exit> {
    let order = Order { column: list.selection.sort.clone(), reverse: list.selection.reverse };
    let want = Want {
        filter: Filter::from(&list.selection),
        all,
        contents: true,
        interval: list.watch.unwrap_or(Duration::from_secs(1)),
    };
    let mut source = Source::open(endpoint, want).await?;
    let view = source.view().await?;
    let show = |view: &View| print_list(view, records, list.output, &order, screen);
    let ended = {
        let cut = source.cut(&view);
        show(&cut)?;
        outcome(&cut)
    };
    match list.watch {
        None => Ok(ended),
        Some(interval) => again_and_again(source, view, interval, show).await,
    }
}

fn print_list(view: &View, records: Records, format: Format, order: &Order, screen: Screen) -> Result<()> {
    print(&render(view, records, format, order, screen)?)?;
    if view.is_simulated() && matches!(format, Format::Table | Format::Wide) {
        tell("SIMULATED: what is listed is not real");
    }
    Ok(())
}

/// Says on standard error what is missing, and picks the exit code.
pub(crate) fn outcome(view: &View) -> Exit {
    if view.is_complete() {
        return Exit::Ok;
    }
    for host in view.hosts.values().filter(|host| host.connection != crate::view::Connection::Connected) {
        let problem = host.problem.as_deref().map(|problem| format!(": {problem}")).unwrap_or_default();
        let age = host.sample_age().map(|age| format!(", last seen {} ago", gpufleet_model::human::duration(age)));
        tell(format!("host `{}` is {}{}{problem}", host.name, host.connection.as_str(), age.unwrap_or_default()));
    }
    Exit::Partial
}

async fn again_and_again(
    mut source: Source,
    first: View,
    interval: Duration,
    show: impl Fn(&View) -> Result<()>,
) -> Result<Exit> {
    let mut following = Following::new(first, source.streams());
    let mut ticks = tokio::time::interval(interval);
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
            event = source.next() => match event {
                Some(event) => {
                    let known = following.problem().map(str::to_owned);
                    following.take(event)?;
                    // Said once, not at each attempt.
                    if let Some(problem) = following.problem().filter(|problem| known.as_deref() != Some(*problem)) {
                        tell(format!("{problem}; trying again"));
                    }
                }
                None => return Err(CtlError::unreachable("the source ended")),
            },
            // What is old is not printed as if it were new.
            _ = ticks.tick(), if following.problem().is_none() => {
                print("\n")?;
                show(&source.cut(following.shown()))?;
            }
        }
    }
}
