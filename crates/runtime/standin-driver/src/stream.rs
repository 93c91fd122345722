//! Streams: queues of work that run when something waits for them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    thread::{self, ThreadId},
};

use cudarc::driver::sys::CUstreamCaptureMode as Mode;

use crate::{kernel::Launched, memory::Memory};

/// Work on a stream.
#[derive(Clone)]
pub(crate) enum Work {
    Write { to: u64, bytes: Arc<Vec<u8>> },
    Fill { at: u64, byte: u8, len: usize },
    Copy { to: u64, from: u64, len: usize },
    Free(u64),
    Kernel(Launched),
    Record,
    Wait { stream: u64, position: u64 },
}

pub(crate) struct Stream {
    pub device: usize,
    queue: VecDeque<Work>,
    /// Number of operations queued, and done.
    pub put: u64,
    done: u64,
    /// Warp instructions that its kernels have executed: the stand-in's clock.
    clock: u64,
    /// The clock at each event that was reached, by position.
    stamps: HashMap<u64, u64>,
    /// Allocations written by the preceding operation, if that was a kernel.
    before: HashSet<u64>,
    /// The capture in progress; `Err` after it was invalidated.
    pub recording: Option<Result<Vec<Work>, ()>>,
    /// How that capture was begun, and by whom.
    began: (Mode, ThreadId),
}

impl Stream {
    pub(crate) fn new(device: usize) -> Self {
        Self {
            device,
            queue: VecDeque::new(),
            put: 0,
            done: 0,
            clock: 0,
            stamps: HashMap::new(),
            before: HashSet::new(),
            recording: None,
            began: (Mode::CU_STREAM_CAPTURE_MODE_RELAXED, thread::current().id()),
        }
    }

    /// The clock at the event of this position, if it was reached.
    pub(crate) fn stamp(&self, position: u64) -> Option<u64> {
        self.stamps.get(&position).copied()
    }

    /// Captures work from now on.
    pub(crate) fn begin_capture(&mut self, mode: Mode) {
        self.recording = Some(Ok(Vec::new()));
        self.began = (mode, thread::current().id());
    }

    /// Whether a capture in progress forbids the calling thread what is unsafe meanwhile.
    fn forbids_unsafe_calls(&self) -> bool {
        let (mode, by) = self.began;
        self.recording.is_some()
            && match mode {
                Mode::CU_STREAM_CAPTURE_MODE_GLOBAL => true,
                Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => by == thread::current().id(),
                Mode::CU_STREAM_CAPTURE_MODE_RELAXED => false,
            }
    }

    /// Queues work, or captures it.
    pub(crate) fn put(&mut self, work: Work) {
        match &mut self.recording {
            Some(Ok(recorded)) => recorded.push(work),
            Some(Err(())) => {}
            None => {
                self.queue.push_back(work);
                self.put += 1;
            }
        }
    }
}

/// All streams, with what their work needs.
#[derive(Default)]
pub(crate) struct Streams {
    pub all: HashMap<u64, Stream>,
    /// Modules that are loaded.
    pub modules: HashSet<u64>,
    /// Whether kernels are interpreted, or only their arguments checked.
    pub is_interpreted: bool,
}

impl Streams {
    /// Whether any capture forbids the calling thread what is unsafe meanwhile.
    pub(crate) fn forbid_unsafe_calls(&self) -> bool {
        self.all.values().any(Stream::forbids_unsafe_calls)
    }

    /// Runs a stream until `until` operations are done.
    pub(crate) fn run(&mut self, handle: u64, until: u64, memory: &mut Memory) -> Result<(), String> {
        loop {
            let Some(stream) = self.all.get_mut(&handle) else {
                return Err(format!("stream {handle} does not exist"));
            };
            if stream.done >= until {
                return Ok(());
            }
            let Some(work) = stream.queue.pop_front() else { return Ok(()) };
            stream.done += 1;
            let (device, before) = (stream.device, std::mem::take(&mut stream.before));
            match work {
                Work::Write { to, bytes } => memory.write(device, to, &bytes)?,
                Work::Fill { at, byte, len } => memory.write(device, at, &vec![byte; len])?,
                Work::Copy { to, from, len } => {
                    let bytes = memory.read(device, from, len)?.to_vec();
                    memory.write(device, to, &bytes)?;
                }
                Work::Free(address) => memory.free(address)?,
                Work::Record => {
                    if let Some(stream) = self.all.get_mut(&handle) {
                        stream.stamps.insert(stream.done, stream.clock);
                    }
                }
                Work::Wait { stream, position } => self.run(stream, position, memory)?,
                Work::Kernel(launched) => {
                    if !self.modules.contains(&launched.module) {
                        return Err(format!("{} runs after its module was unloaded", launched.entry()));
                    }
                    let effects = launched.run(device, memory, &before, self.is_interpreted)?;
                    if let Some(stream) = self.all.get_mut(&handle) {
                        stream.before = effects.changed;
                        stream.clock += effects.instructions;
                    }
                }
            }
        }
    }

    /// Runs all work of a stream.
    pub(crate) fn finish(&mut self, handle: u64, memory: &mut Memory) -> Result<(), String> {
        let until = self.all.get(&handle).map_or(0, |stream| stream.put);
        self.run(handle, until, memory)
    }
}
