//! CUDA graphs.

use std::marker::PhantomData;

use cudarc::driver::{CudaGraph, CudaStream, result, sys};

use super::{Buffer, CudaError, Gpu, error::DoingExt, launch::LoadedKernel};

/// A captured graph. It borrows its operands and keeps its kernels loaded, so it cannot outlive either:
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
    // Dropped after the graph.
    _kernels: Vec<LoadedKernel>,
    _operands: PhantomData<&'a Buffer>,
}

/// Prepared work that can be captured, with operands that live for `'a`.
pub trait Capturable<'a>: sealed::Work {}

pub(super) mod sealed {
    use super::{CudaError, CudaStream, Gpu, LoadedKernel};

    pub trait Work {
        /// The GPU with the stream that the operands belong to.
        fn gpu(&self) -> &Gpu;

        /// The kernels that it launches.
        fn kernels(&self) -> Vec<LoadedKernel>;

        /// Launches it on a stream.
        ///
        /// # Safety
        /// The stream is the one that the operands belong to. Or it is being captured, and the graph is
        /// launched on that one, while operands and kernels live.
        unsafe fn put(&self, stream: &CudaStream) -> Result<(), CudaError>;
    }
}

impl<'a> Graph<'a> {
    /// Captures work, in order, without running it. All of it must belong to the stream of `gpu`, where the
    /// graph will run.
    pub fn capture<'b, R: Capturable<'a> + ?Sized + 'b>(
        gpu: &Gpu,
        work: impl IntoIterator<Item = &'b R>,
    ) -> Result<Self, CudaError> {
        let work: Vec<&R> = work.into_iter().collect();
        if work.iter().any(|work| !work.gpu().shares_stream(gpu)) {
            return Err(CudaError::OtherStream { what: "captured work" });
        }
        let mut kernels: Vec<LoadedKernel> = Vec::new();
        for kernel in work.iter().flat_map(|work| work.kernels()) {
            if !kernels.iter().any(|kept| kept.is_same(&kernel)) {
                kernels.push(kernel);
            }
        }
        // Capture on a private stream: what others launch on the stream of `gpu` meanwhile is not part of the
        // graph.
        let capturing = gpu.context.new_stream().doing("make a stream")?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        capturing.begin_capture(mode).doing("capture a graph")?;
        // SAFETY: the stream is being captured, and `launch` runs the graph on the stream of the operands,
        // which live for `'a`.
        let captured = work.iter().try_for_each(|work| unsafe { work.put(&capturing) });
        // Capture must end even if a launch failed.
        let graph = capturing.end_capture(sys::CUgraphInstantiate_flags(0)).doing("capture a graph");
        captured?;
        let graph = graph?.ok_or(CudaError::Driver {
            doing: "capture a graph",
            reason: "the capture was invalidated".to_owned(),
        })?;
        // SAFETY: the graph was made just now, in the context of the stream.
        unsafe { result::graph::upload(graph.cu_graph_exec(), gpu.stream.cu_stream()) }
            .doing("upload a graph")?;
        Ok(Self { graph, gpu: gpu.clone(), _kernels: kernels, _operands: PhantomData })
    }

    /// Launches the graph without waiting for it.
    pub fn launch(&self) -> Result<(), CudaError> {
        self.gpu.bind()?;
        // SAFETY: the graph belongs to the GPU. Its operands and kernels are alive, and are freed in stream
        // order.
        unsafe { result::graph::launch(self.graph.cu_graph_exec(), self.gpu.stream.cu_stream()) }
            .doing("launch a graph")
    }
}
