//! The reader's end of a stream: messages, then how it ended.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use super::shutting_down;

/// Messages made ahead of the reader.
const AHEAD: usize = 1;

/// What a stream of messages answers with.
#[derive(Debug)]
pub(crate) struct WatchStream<T> {
    messages: mpsc::Receiver<T>,
    ending: Ending,
    ended: bool,
}

/// Where the task leaves how the stream ended. One that leaves nothing was cut off by the shutdown.
pub(crate) type Ending = Arc<OnceLock<Result<(), Status>>>;

/// A stream, the sender that feeds it, and the place for its last word, to be set before the sender is dropped.
pub(crate) fn channel<T>() -> (WatchStream<T>, mpsc::Sender<T>, Ending) {
    let (sender, messages) = mpsc::channel(AHEAD);
    let ending = Ending::default();
    (WatchStream { messages, ending: Arc::clone(&ending), ended: false }, sender, ending)
}

impl<T> Stream for WatchStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(message) = ready!(self.messages.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(message)));
        }
        self.ended = true;
        let ending = self.ending.get().cloned().unwrap_or_else(|| Err(shutting_down()));
        Poll::Ready(ending.err().map(Err))
    }
}
