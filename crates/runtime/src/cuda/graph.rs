//! Work that is recorded once and replayed.

use std::marker::PhantomData;

use cudarc::driver::{CudaGraph, CudaStream, result, sys};

use super::{Buffer, CudaError, Gpu, error::DoingExt, launch::LoadedKernel};

/// Recorded work. It borrows its operands and keeps its kernels loaded, so it cannot outlive either:
///
/// ```compile_fail,E0505
/// use octile_runtime::cuda::{CudaError, Gpu, Graph, PlannedMatmul, DeviceOperands};
///
/// fn replay(gpu: &Gpu, product: &PlannedMatmul, memory: DeviceOperands) -> Result<(), CudaError> {
///     let graph = Graph::capture(gpu, [&product.prepare(memory.operands())?])?;
///     drop(memory);
///     graph.launch()
/// }
/// ```
pub struct Graph<'a> {
    graph: CudaGraph,
    gpu: Gpu,
    // Dropped behind the graph.
    _kernels: Vec<LoadedKernel>,
    _operands: PhantomData<&'a Buffer>,
}

/// What can be recorded: work that is prepared, with operands that live for `'a`.
pub trait Capturable<'a>: sealed::Work {}

pub(super) mod sealed {
    use super::{CudaError, CudaStream, Gpu, LoadedKernel};

    pub trait Work {
        /// The GPU with the stream that the operands belong to.
        fn gpu(&self) -> &Gpu;

        /// The kernels that it launches.
        fn kernels(&self) -> Vec<LoadedKernel>;

        /// Puts it on a stream.
        ///
        /// # Safety
        /// The stream is the one that the operands belong to; or it records, and what it records is launched on that one, while operands and
        /// kernels live.
        unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError>;
    }
}

impl<'a> Graph<'a> {
    /// Records work, in order, and runs none of it. All of it must be for the stream of `gpu`, where the graph will run.
    pub fn capture<'b, R: Capturable<'a> + ?Sized + 'b>(
        gpu: &Gpu,
        work: impl IntoIterator<Item = &'b R>,
    ) -> Result<Self, CudaError> {
        let work: Vec<&R> = work.into_iter().collect();
        if work.iter().any(|work| !work.gpu().shares_stream(gpu)) {
            return Err(CudaError::OtherStream { what: "recorded work" });
        }
        let mut kernels: Vec<LoadedKernel> = Vec::new();
        for kernel in work.iter().flat_map(|work| work.kernels()) {
            if !kernels.iter().any(|kept| kept.is_same(&kernel)) {
                kernels.push(kernel);
            }
        }
        // On a stream that no one else has: what others put on the stream of `gpu` meanwhile is not for the graph.
        let recorder = gpu.context.new_stream().doing("make a stream")?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        recorder.begin_capture(mode).doing("record a graph")?;
        // SAFETY: the stream records, and `launch` puts the graph on the stream of the operands, which live for `'a`.
        let recorded = work.iter().try_for_each(|work| unsafe { work.put(&recorder) });
        // Recording must end whether or not the work could be put on the stream.
        let graph = recorder.end_capture(sys::CUgraphInstantiate_flags(0)).doing("record a graph");
        recorded?;
        let graph = graph?.ok_or(CudaError::Driver {
            doing: "record a graph",
            reason: "the recording was cut short".to_owned(),
        })?;
        // SAFETY: the graph was made just now, in the context of the stream.
        unsafe { result::graph::upload(graph.cu_graph_exec(), gpu.stream.cu_stream()) }
            .doing("upload a graph")?;
        Ok(Self { graph, gpu: gpu.clone(), _kernels: kernels, _operands: PhantomData })
    }

    /// Puts the recorded work on the stream, and returns at once.
    pub fn launch(&self) -> Result<(), CudaError> {
        self.gpu.bind()?;
        // SAFETY: the graph belongs to the GPU. Its operands and kernels live, and are freed in the order of this stream.
        unsafe { result::graph::launch(self.graph.cu_graph_exec(), self.gpu.stream.cu_stream()) }
            .doing("launch a graph")
    }
}
