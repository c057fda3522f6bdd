//! A small blocking client of the health socket, for programs that ask before each piece of work.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use super::{HELLO_LENGTH, RECORD_LENGTH, Record, Request};

/// The most devices an answer may name: far above what a host can hold.
const MOST_DEVICES: u32 = 4096;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The socket could not be reached, or broke.
    #[error("health socket: {0}")]
    Io(#[from] io::Error),
    /// The answer is not of this protocol.
    #[error("health socket: answer not understood: {0}")]
    Protocol(&'static str),
}

/// What a hello answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Protocol version.
    pub version: u16,
    /// Devices on the host.
    pub device_count: u32,
    /// Time between two samples, in milliseconds.
    pub sample_interval_ms: u32,
    /// Capability bits.
    pub capabilities: u32,
}

/// One connection. Requests are answered in order.
#[derive(Debug)]
pub struct HealthClient {
    stream: UnixStream,
}

impl HealthClient {
    /// Connects; each answer must come within `timeout`.
    ///
    /// # Errors
    /// When the socket cannot be reached.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream })
    }

    /// Asks for version and capabilities.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn hello(&mut self) -> Result<Hello, ClientError> {
        self.send(Request::Hello)?;
        let [v0, v1, d0, d1, d2, d3, i0, i1, i2, i3, c0, c1, c2, c3] = self.receive::<HELLO_LENGTH>()?;
        Ok(Hello {
            version: u16::from_be_bytes([v0, v1]),
            device_count: u32::from_be_bytes([d0, d1, d2, d3]),
            sample_interval_ms: u32::from_be_bytes([i0, i1, i2, i3]),
            capabilities: u32::from_be_bytes([c0, c1, c2, c3]),
        })
    }

    /// Asks for one device.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn device(&mut self, gpu: u32, mask: u32) -> Result<Record, ClientError> {
        self.send(Request::Device { gpu, mask })?;
        self.record()
    }

    /// Asks for every device.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn devices(&mut self, mask: u32) -> Result<Vec<(u32, Record)>, ClientError> {
        self.send(Request::All { mask })?;
        self.listing()
    }

    /// Subscribes: answers the state now. Changes come by [`HealthClient::next_change`].
    ///
    /// # Errors
    /// When no answer comes.
    pub fn subscribe(&mut self, gpu: Option<u32>, mask: u32) -> Result<Vec<(u32, Record)>, ClientError> {
        self.send(Request::Subscribe { gpu, mask })?;
        self.listing()
    }

    /// Waits for the next change; `timeout` of `None` waits for ever.
    ///
    /// # Errors
    /// When none comes in time or the connection breaks.
    pub fn next_change(&mut self, timeout: Option<Duration>) -> Result<(u32, Record), ClientError> {
        self.stream.set_read_timeout(timeout)?;
        self.numbered()
    }

    fn listing(&mut self) -> Result<Vec<(u32, Record)>, ClientError> {
        let count = u32::from_be_bytes(self.receive()?);
        if count > MOST_DEVICES {
            return Err(ClientError::Protocol("more devices than a host can hold"));
        }
        (0..count).map(|_| self.numbered()).collect()
    }

    fn numbered(&mut self) -> Result<(u32, Record), ClientError> {
        let gpu = u32::from_be_bytes(self.receive()?);
        Ok((gpu, self.record()?))
    }

    fn record(&mut self) -> Result<Record, ClientError> {
        let bytes = self.receive::<RECORD_LENGTH>()?;
        Record::decode(bytes).ok_or(ClientError::Protocol("unknown status"))
    }

    fn send(&mut self, request: Request) -> Result<(), ClientError> {
        Ok(self.stream.write_all(&request.encode())?)
    }

    fn receive<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], ClientError> {
        let mut bytes = [0; LENGTH];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
