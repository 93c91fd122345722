//! The driver's state.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use cudarc::driver::sys::CUresult;

use crate::{
    kernel::Kernel,
    memory::Memory,
    stream::{Stream, Streams, Work},
};

/// A GPU of the stand-in.
#[derive(Clone)]
pub(crate) struct Model {
    pub name: String,
    pub capability: (i32, i32),
    pub sms: i32,
}

pub(crate) struct Driver {
    pub models: Vec<Model>,
    pub version: i32,
    pub memory: Memory,
    pub streams: Streams,
    /// Stream and position of each event.
    pub events: HashMap<u64, (u64, u64)>,
    pub modules: HashMap<u64, Arc<Kernel>>,
    pub graphs: HashMap<u64, Vec<Work>>,
    pub faults: Vec<String>,
    next: u64,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::from_environment()));

/// Locks the driver.
pub(crate) fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    fn from_environment() -> Self {
        let gpus = std::env::var("OCTILE_STANDIN_GPUS").unwrap_or_else(|_| "NVIDIA H200,9.0,132".to_owned());
        let version = std::env::var("OCTILE_STANDIN_CUDA").ok().and_then(|version| version.parse().ok());
        let mut streams = Streams { is_interpreted: true, ..Streams::default() };
        streams.all.insert(0, Stream::new(0));
        let mut driver = Self {
            models: Vec::new(),
            version: version.unwrap_or(13_000),
            memory: Memory::default(),
            streams,
            events: HashMap::new(),
            modules: HashMap::new(),
            graphs: HashMap::new(),
            faults: Vec::new(),
            next: 0,
        };
        driver.pretend(&gpus);
        driver
    }

    /// Parses `name,major.minor,SMs` for each GPU, separated by semicolons.
    pub(crate) fn pretend(&mut self, gpus: &str) {
        let model = |text: &str| {
            let mut parts = text.split(',');
            let name = parts.next()?.to_owned();
            let (major, minor) = parts.next()?.split_once('.')?;
            let capability = (major.parse().ok()?, minor.parse().ok()?);
            Some(Model { name, capability, sms: parts.next()?.parse().ok()? })
        };
        self.models = gpus.split(';').filter_map(model).collect();
    }

    /// Returns a new handle.
    pub(crate) fn handle(&mut self) -> u64 {
        // Handles look like pointers, and none is null.
        self.next += 16;
        self.next
    }

    /// Records and prints a fault.
    pub(crate) fn fault(&mut self, fault: String) -> CUresult {
        eprintln!("stand-in driver: {fault}");
        self.faults.push(fault);
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
    }

    /// Converts the outcome of a call.
    pub(crate) fn result(&mut self, done: Result<(), String>) -> CUresult {
        match done {
            Ok(()) => CUresult::CUDA_SUCCESS,
            Err(fault) => self.fault(fault),
        }
    }

    /// Queues work on a stream.
    pub(crate) fn put(&mut self, stream: u64, work: Work) -> CUresult {
        match self.streams.all.get_mut(&stream) {
            Some(stream) => {
                stream.put(work);
                CUresult::CUDA_SUCCESS
            }
            None => self.fault(format!("work for stream {stream}, which does not exist")),
        }
    }

    /// Runs all work of a stream. Synchronizing invalidates a capture, as in the real driver.
    pub(crate) fn wait(&mut self, handle: u64) -> CUresult {
        if let Some(recording) = self.streams.all.get_mut(&handle).and_then(|s| s.recording.as_mut()) {
            *recording = Err(());
            return CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        let Self { streams, memory, .. } = self;
        let done = streams.finish(handle, memory);
        self.result(done)
    }

    /// Runs all work of all streams.
    pub(crate) fn wait_for_all(&mut self) -> CUresult {
        let mut handles: Vec<u64> = self.streams.all.keys().copied().collect();
        handles.sort_unstable();
        let results: Vec<CUresult> = handles
            .into_iter()
            .filter(|handle| self.streams.all[handle].recording.is_none())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|handle| self.wait(handle))
            .collect();
        results.into_iter().find(|&r| r != CUresult::CUDA_SUCCESS).unwrap_or(CUresult::CUDA_SUCCESS)
    }
}
