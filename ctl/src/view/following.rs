//! A view that is followed through lost connections.
//!
//! While the connection is lost, and until all that is known has come anew, the view before stays and a problem is told:
//! nothing blinks to empty and nothing half known is shown as the whole.

use super::{Event, View};
use crate::exit::Result;

/// A view as its source's events come in.
pub(crate) struct Following {
    view: View,
    /// What was shown when the connection came back, until the new view is whole.
    before: Option<View>,
    /// Streams that are complete since then, of how many.
    synced: usize,
    streams: usize,
    problem: Option<String>,
}

impl Following {
    /// Follows from a view that is whole, made by so many streams.
    pub(crate) const fn new(view: View, streams: usize) -> Self {
        Self { view, before: None, synced: 0, streams, problem: None }
    }

    /// Takes news in.
    ///
    /// # Errors
    /// When the connection is lost for good, or the news cannot be understood.
    pub(crate) fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Lost(error) if error.is_temporary() => self.problem = Some(error.to_string()),
            Event::Lost(error) => return Err(error),
            Event::Back => {
                let empty = View::new(self.view.fleet);
                let shown = std::mem::replace(&mut self.view, empty);
                // Lost again before all was known: what was whole last stays.
                self.before.get_or_insert(shown);
                self.synced = 0;
            }
            Event::Synced if self.before.is_some() => {
                self.synced += 1;
                if self.synced >= self.streams {
                    (self.before, self.problem) = (None, None);
                }
            }
            event => self.view.apply(event)?,
        }
        Ok(())
    }

    /// What to show.
    pub(crate) fn shown(&self) -> &View {
        self.before.as_ref().unwrap_or(&self.view)
    }

    /// Why what is shown is old.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}
