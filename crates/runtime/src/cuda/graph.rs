//! Work that is recorded once and replayed.

use cudarc::driver::{CudaGraph, sys};

use super::{CudaError, Gpu, error::While};

/// Recorded work.
pub struct Graph(CudaGraph);

impl Graph {
    /// Records what `work` puts on the stream instead of running it.
    pub fn record(gpu: &Gpu, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Self, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        gpu.stream.begin_capture(mode).doing("record a graph")?;
        let worked = work();
        // Recording must end whether or not the work could be put on the stream.
        let graph = gpu.stream.end_capture(sys::CUgraphInstantiate_flags(0)).doing("record a graph");
        worked?;
        let graph = graph?.ok_or(CudaError::Driver {
            doing: "record a graph",
            reason: "the recording was cut short".to_owned(),
        })?;
        graph.upload().doing("upload a graph")?;
        Ok(Self(graph))
    }

    /// Puts the recorded work on the stream.
    pub fn launch(&self) -> Result<(), CudaError> {
        self.0.launch().doing("launch a graph")
    }
}
