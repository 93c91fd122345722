//! The loops around the tiles: the same for every strategy, which only says where weights and scales come from.

use std::{marker::PhantomData, ops::Range};

use octile_core::{
    FloatKind, MatMut,
    plan::cpu::{CpuPlan, PANEL, SLAB, Share, Step, WeightPath, x_row_bytes},
};

use super::{
    kernel::{Kernels, TileArgs},
    operands::{Floats, Output, Weight},
    packed::GROUP,
};

/// More rows than any tile has.
pub(super) const MAX_TILE_ROWS: usize = 8;

/// One strategy's way to bring weights and scales to the tiles.
pub(super) trait Fetch {
    /// A new block of rows begins.
    fn enter_rows(&mut self, _rows: Range<usize>) {}

    /// Comes before everything else, with the first step.
    fn begin(&mut self, _first: &Step) {}

    /// The weights of a step: decoded, or the codes for tiles that decode.
    fn weights(&mut self, step: &Step) -> *const u8;

    /// Comes after tile `tile` of `tiles`, with the step that follows the current one.
    fn meanwhile(&mut self, _next: Option<&Step>, _tile: usize, _tiles: usize) {}

    /// What the sums of each row are multiplied with.
    fn scales(&self, step: &Step, rows: Range<usize>) -> [f32; MAX_TILE_ROWS];
}

/// Activations as they come, before decoding.
pub(super) enum Values<'a> {
    /// f8e4m3fn, `cols` to a row.
    Codes(&'a [u8]),
    Plain(Floats<'a>),
}

/// The activations of the rows that are multiplied together.
pub(super) struct X<'a> {
    /// The row of the result that the first row here belongs to.
    pub first_row: usize,
    pub values: Values<'a>,
    /// One scale per `rows_per_scale` rows and quantization block; none for plain activations.
    pub scales: &'a [f32],
    pub rows_per_scale: usize,
}

/// What stays the same for a whole call.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub plan: &'a CpuPlan,
    pub kernels: &'static Kernels,
    pub weight: Weight<'a>,
}

/// What all threads read.
pub(super) struct Job<'a> {
    pub call: Call<'a>,
    pub x: X<'a>,
}

impl Job<'_> {
    /// Quantization blocks along K.
    pub fn blocks(&self) -> usize {
        self.call.plan.problem.quant_block.count(self.call.plan.problem.k)
    }

    /// The scale of an activation row in a quantization block.
    pub fn x_scale(&self, row: usize, block: usize) -> f32 {
        if self.x.scales.is_empty() {
            return 1.0;
        }
        self.x.scales[(row - self.x.first_row) / self.x.rows_per_scale * self.blocks() + block]
    }

    /// The scale of the weights of a step.
    pub fn w_scale(&self, step: &Step) -> f32 {
        let block_row = step.panel * PANEL / self.call.plan.problem.quant_block.size();
        self.call.weight.scales()[block_row * self.blocks() + step.block]
    }

    /// The scales of a tile, looked up where the operands have them.
    pub fn scales_beside_data(&self, step: &Step, rows: Range<usize>) -> [f32; MAX_TILE_ROWS] {
        let w_scale = self.w_scale(step);
        let mut scales = [0.0; MAX_TILE_ROWS];
        for (scale, row) in scales.iter_mut().zip(rows) {
            *scale = self.x_scale(row, step.block) * w_scale;
        }
        scales
    }

    /// Decodes the pairs `range` of a packed panel that has `pairs` of them.
    pub fn decode_panel(&self, codes: &[u8], pairs: usize, out: &mut [u8], range: Range<usize>) {
        assert!(range.end <= pairs && pairs * GROUP <= codes.len());
        assert!(pairs * GROUP * self.call.plan.operand.bytes() <= out.len());
        // SAFETY: codes and values of `pairs` groups are there, and the kernels were chosen for this machine.
        unsafe { (self.call.kernels.decode_panel)(codes.as_ptr(), pairs, out.as_mut_ptr(), range) }
    }

    /// Decodes the columns `depth` of `rows` into `x`: slab by slab, row by row.
    fn decode_x(&self, rows: Range<usize>, depth: Range<usize>, x: &mut [u8]) {
        let row_bytes = x_row_bytes(self.call.plan.operand);
        let slabs = depth.clone().step_by(SLAB).zip(x.chunks_mut(self.call.plan.block_rows * row_bytes));
        for (start, slab) in slabs {
            let columns = start..depth.end.min(start + SLAB);
            for (row, out) in rows.clone().zip(slab.chunks_mut(row_bytes)) {
                self.decode_x_row(row - self.x.first_row, columns.clone(), out);
            }
        }
    }

    fn decode_x_row(&self, row: usize, columns: Range<usize>, out: &mut [u8]) {
        let len = columns.len();
        match &self.x.values {
            Values::Codes(codes) => {
                let codes = &codes[row * self.call.plan.problem.k..][columns];
                // SAFETY: `out` has room for a slab, which is a whole number of runs of 64 values, and the
                // kernels were chosen for this machine.
                unsafe { (self.call.kernels.decode_row)(codes, out.as_mut_ptr()) }
            }
            Values::Plain(Floats::Bf16(mat)) if self.call.kernels.operand == FloatKind::Bf16 => {
                let pairs = out.as_chunks_mut::<2>().0;
                pairs[len] = [0; 2];
                for (out, value) in pairs.iter_mut().zip(&mat.row(row)[columns]) {
                    *out = value.to_ne_bytes();
                }
            }
            Values::Plain(floats) => {
                assert_eq!(self.call.kernels.operand, FloatKind::F32, "operands as planned");
                // SAFETY: any bytes are valid as `f32`.
                let (head, out, _) = unsafe { out.align_to_mut::<f32>() };
                assert!(head.is_empty(), "rows are aligned");
                out[len] = 0.0;
                floats.widen(row, columns, &mut out[..len]);
            }
        }
    }
}

/// The result, which threads write to in rectangles of their own.
pub(super) struct Out<'a, T> {
    first: *mut T,
    stride: usize,
    cols: usize,
    borrow: PhantomData<&'a mut T>,
}

// SAFETY: `row` is the only access, and its callers keep to rectangles that no other thread has.
unsafe impl<T: Send> Sync for Out<'_, T> {}

impl<'a, T> Out<'a, T> {
    pub(super) fn new(mut mat: MatMut<'a, T>) -> Self {
        Self {
            stride: mat.stride(),
            cols: mat.cols(),
            first: mat.as_mut_slice().as_mut_ptr(),
            borrow: PhantomData,
        }
    }

    /// The part of a panel in `row` that is inside the matrix.
    ///
    /// # Safety
    /// The matrix has that row and panel, and nobody else uses this part of it meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts disjoint")]
    unsafe fn row(&self, row: usize, panel: usize) -> &mut [T] {
        let col = panel * PANEL;
        // SAFETY: inside the matrix that `first` came from, as the caller vouches.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.first.add(row * self.stride + col),
                PANEL.min(self.cols - col),
            )
        }
    }
}

/// Computes one thread's share with the activations and sums in `x` and `sums`.
pub(super) fn run<T: Output>(
    job: &Job<'_>,
    mut fetch: impl Fetch,
    share: Share,
    x: &mut [u8],
    sums: &mut [f32],
    out: &Out<'_, T>,
) {
    let plan = job.call.plan;
    let mut steps = plan.steps(share).peekable();
    let Some(first) = steps.peek() else { return };
    fetch.begin(first);
    let mut rows = 0..0;
    while let Some(step) = steps.next() {
        if step.rows != rows {
            rows = step.rows.clone();
            fetch.enter_rows(rows.clone());
        }
        if let Some(depth) = &step.decode {
            job.decode_x(rows.clone(), depth.clone(), x);
        }
        let weights = fetch.weights(&step);
        let sums = &mut sums[step.slot * plan.block_rows * PANEL..][..plan.block_rows * PANEL];
        let tiles = plan.tiles(rows.clone());
        let count = tiles.len();
        for (index, tile) in tiles.enumerate() {
            let scales = fetch.scales(&step, tile.clone());
            let sums = &mut sums[(tile.start - rows.start) * PANEL..][..tile.len() * PANEL];
            multiply_tile(job, &step, &tile, x, weights, &scales, sums);
            if step.last {
                for (row, sums) in tile.zip(sums.chunks_exact(PANEL)) {
                    // SAFETY: rows and panels of this thread's share are inside the matrix, and its own.
                    let out = unsafe { out.row(row, step.panel) };
                    T::narrow(&sums[..out.len()], out);
                }
            }
            fetch.meanwhile(steps.peek(), index, count);
        }
    }
}

/// Multiplies one tile of a step, in as many pieces as a panel has tile columns.
fn multiply_tile(
    job: &Job<'_>,
    step: &Step,
    tile: &Range<usize>,
    x: &[u8],
    weights: *const u8,
    scales: &[f32; MAX_TILE_ROWS],
    sums: &mut [f32],
) {
    let (plan, kernels) = (job.call.plan, job.call.kernels);
    let slab = step.depth.start / SLAB - step.pass_start / SLAB;
    let x = &x[(slab * plan.block_rows + tile.start - step.rows.start) * x_row_bytes(plan.operand)..]
        [step.depth.start % SLAB * plan.operand.bytes()..];
    let pairs = step.depth.len().div_ceil(2);
    let mut args = TileArgs {
        x: x.as_ptr(),
        w: weights,
        pairs,
        scales: scales.as_ptr(),
        out: sums.as_mut_ptr(),
        replace: step.first,
    };
    // SAFETY: `x` holds the tile's rows of this pass, `weights` is what the plan's path says, `sums` has the tile's
    // rows, and the kernels were chosen for this machine.
    unsafe {
        match plan.path {
            WeightPath::Streamed => (kernels.decoding_tiles[tile.len() - 1])(&args),
            WeightPath::Buffered => {
                for _ in 0..PANEL / kernels.tile_cols {
                    (kernels.tiles[tile.len() - 1])(&args);
                    args.w = args.w.add(pairs * 2 * kernels.tile_cols * plan.operand.bytes());
                    args.out = args.out.add(kernels.tile_cols);
                }
            }
        }
    }
}
