//! The reader's end of a served stream: messages, then how it ended.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

/// Messages made ahead of the reader: one, so that what is sent is the newest.
const AHEAD: usize = 1;

/// What a stream of messages answers with.
#[derive(Debug)]
pub struct WatchStream<T> {
    messages: mpsc::Receiver<T>,
    ending: Ending,
    cut_off: fn() -> Status,
    ended: bool,
}

/// Where the task leaves how the stream ended; one that leaves nothing was cut off.
pub type Ending = Arc<OnceLock<Result<(), Status>>>;

/// A stream, the sender that feeds it, and the place for its last word, to be set before the last sender is dropped.
/// `cut_off` is the status of a stream whose task left no word.
pub fn channel<T>(cut_off: fn() -> Status) -> (WatchStream<T>, mpsc::Sender<T>, Ending) {
    let (sender, messages) = mpsc::channel(AHEAD);
    let ending = Ending::default();
    (WatchStream { messages, ending: Arc::clone(&ending), cut_off, ended: false }, sender, ending)
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
        let ending = self.ending.get().cloned().unwrap_or_else(|| Err((self.cut_off)()));
        Poll::Ready(ending.err().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_gives_its_messages_and_then_its_last_word_once() {
        let (mut stream, sender, ending) = channel(|| Status::unavailable("cut off"));
        sender.send(1).await.unwrap();
        ending.set(Err(Status::aborted("because"))).unwrap();
        drop(sender);
        assert_eq!(stream.next().await.unwrap().unwrap(), 1);
        assert_eq!(stream.next().await.unwrap().unwrap_err().message(), "because");
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_without_a_last_word_was_cut_off() {
        let (mut stream, sender, _ending) = channel::<u8>(|| Status::unavailable("cut off"));
        drop(sender);
        assert_eq!(stream.next().await.unwrap().unwrap_err().message(), "cut off");
    }
}
