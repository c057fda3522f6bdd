//! `top`: this host, or the fleet; once, or on a terminal again and again.

use std::io::Write as _;
use std::time::Duration;

use crossterm::event::{Event as Key, KeyCode, KeyModifiers};
use crossterm::{cursor, queue, terminal};
use tokio::sync::mpsc;

use super::list::outcome;
use crate::cli::{Format, Selection};
use crate::config::Endpoint;
use crate::exit::{CtlError, Exit, Result};
use crate::interrupts::Interrupts;
use crate::output::{Order, Records, json, top};
use crate::screen::stage::Stage;
use crate::screen::{Screen, print};
use crate::source::{Source, Want};
use crate::view::{Filter, Following, View};

/// How to show the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Once,
    Json,
    Live,
}

/// Shows the page.
pub(crate) async fn run(
    endpoint: &Endpoint,
    selection: &Selection,
    mode: Mode,
    interval: Duration,
    screen: Screen,
) -> Result<Exit> {
    let order = Order { column: selection.sort.clone(), reverse: selection.reverse };
    let want = Want { filter: Filter::from(selection), all: false, contents: true, interval };
    let mut source = Source::open(endpoint, want).await?;
    let view = source.view().await?;
    if mode == Mode::Live {
        return live(source, view, &order, interval, screen).await;
    }
    let cut = source.cut(&view);
    print(&match mode {
        Mode::Json => json::render(&cut, Records::Processes, Format::Json, &order)?,
        _ => top::render(&cut, &order, screen, None, None)?,
    })?;
    Ok(outcome(&cut))
}

/// What the person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Quit,
    Interrupt,
    Redraw,
}

async fn live(mut source: Source, first: View, order: &Order, interval: Duration, screen: Screen) -> Result<Exit> {
    let mut interrupts = Interrupts::listen()?;
    let stage = Stage::enter()?;
    let mut wishes = wishes();
    let mut ticks = tokio::time::interval(interval);
    let mut following = Following::new(first, source.streams());
    let redraw = |following: &Following, source: &Source| {
        draw(&source.cut(following.shown()), order, screen, following.problem().map(banner).as_deref())
    };
    let ended = loop {
        tokio::select! {
            wish = wishes.recv() => match wish {
                Some(Wish::Redraw) => redraw(&following, &source)?,
                Some(Wish::Quit) | None => break Ok(Exit::Ok),
                Some(Wish::Interrupt) => break Ok(Exit::Interrupted),
            },
            () = interrupts.next() => break Ok(Exit::Interrupted),
            event = source.next() => match event {
                Some(event) => following.take(event)?,
                None => break Err(CtlError::unreachable("the source ended")),
            },
            _ = ticks.tick() => redraw(&following, &source)?,
        }
    };
    drop(stage);
    ended
}

/// Says why what is shown is old; that the connection was lost is not said twice.
fn banner(problem: &str) -> String {
    let why = problem.strip_prefix("the connection was lost: ").unwrap_or(problem);
    format!("CONNECTION LOST: {why}; what is shown is old, trying again")
}

/// Keys, from a thread of their own: reading them blocks.
fn wishes() -> mpsc::Receiver<Wish> {
    let (sender, receiver) = mpsc::channel(8);
    std::thread::spawn(move || {
        while let Ok(event) = crossterm::event::read() {
            let Some(wish) = wish(&event) else { continue };
            if sender.blocking_send(wish).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What a key or a change of the terminal means, if anything.
fn wish(event: &Key) -> Option<Wish> {
    match event {
        Key::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Wish::Interrupt)
        }
        Key::Key(key) if matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc) => Some(Wish::Quit),
        Key::Resize(..) => Some(Wish::Redraw),
        _ => None,
    }
}

/// Paints over what is there, line by line, so that nothing flickers.
fn draw(view: &View, order: &Order, screen: Screen, banner: Option<&str>) -> Result<()> {
    // A terminal may not know its size, and then says 0.
    let known = |size: &(u16, u16)| size.0 > 0 && size.1 > 0;
    let (width, height) = terminal::size().ok().filter(known).unwrap_or((80, 24));
    let screen = Screen { width: Some(usize::from(width)), ..screen };
    let page = top::render(view, order, screen, Some(usize::from(height).saturating_sub(1)), banner)?;
    let mut out = std::io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    for line in page.lines() {
        write!(out, "{line}")?;
        queue!(out, terminal::Clear(terminal::ClearType::UntilNewLine), cursor::MoveToNextLine(1))?;
    }
    queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn q_ends_it_and_ctrl_c_interrupts_it() {
        let key = |code, modifiers| Key::Key(KeyEvent::new(code, modifiers));
        assert_eq!(wish(&key(KeyCode::Char('q'), KeyModifiers::NONE)), Some(Wish::Quit));
        assert_eq!(wish(&key(KeyCode::Esc, KeyModifiers::NONE)), Some(Wish::Quit));
        assert_eq!(wish(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Wish::Interrupt));
        assert_eq!(wish(&key(KeyCode::Char('c'), KeyModifiers::NONE)), None);
        assert_eq!(wish(&Key::Resize(80, 24)), Some(Wish::Redraw));
    }

    #[test]
    fn the_banner_says_once_that_the_connection_was_lost() {
        let expected = "CONNECTION LOST: the other side closed it; what is shown is old, trying again";
        assert_eq!(banner("the connection was lost: the other side closed it"), expected);
        assert!(banner("`a:1`: connection refused").starts_with("CONNECTION LOST: `a:1`: connection refused; "));
    }
}
