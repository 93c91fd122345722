//! The loop nest around the microkernel. Strategies differ in their [`Fetch`] only.

use std::{marker::PhantomData, ops::Range, ptr};

use octile_core::{
    FloatKind, MatMut, QuantBlock, ScaleLayout,
    device::cpu::SLAB,
    plan::cpu::{CpuPlan, PANEL, Step, WeightPath},
    quantize::flush_subnormal,
};

use super::{
    kernel::{Kernels, MoreSlabs, Target, TileArgs, TileState},
    operands::{Floats, Output, WeightRef},
    pack::GROUP,
};

/// Most rows of a tile.
const MAX_ROWS: usize = 32;
const MAX_BLOCKS: usize = SLAB / QuantBlock::B128.size();
/// The activation scales of one tile, block by block.
pub(super) type TileScales = [[f32; MAX_ROWS]; MAX_BLOCKS];

/// How a strategy brings weights and scales to the tiles.
pub(super) trait Fetch {
    /// Called at the start of a row block.
    fn enter_rows(&mut self, _rows: Range<usize>) {}

    /// Called once, with the first step.
    fn begin(&mut self, _first: &Step) {}

    /// The weights of a step.
    fn weights(&mut self, step: &Step) -> Weights;

    /// The codes of the next step, if they are contiguous; or of this one, if its tiles decode them.
    fn ahead(&mut self, _next: Option<&Step>) -> Option<Ahead> {
        None
    }

    /// What a call needs that goes through all `slabs` of the panel of a step, the first one; none if calls
    /// do not.
    fn following(&mut self, _step: &Step, _slabs: usize) -> Option<Following> {
        None
    }

    /// Number of tiles to run between calls of [`Fetch::meanwhile`].
    fn tiles_at_once(&self) -> usize {
        1
    }

    /// Called after the tiles `done` of `count`, with the next step.
    fn meanwhile(&mut self, _next: Option<&Step>, _done: Range<usize>, _count: usize) {}

    /// Whether the scales that [`Fetch::x_scales`] returns stay where they are until the row block ends.
    fn keeps_scales(&self) -> bool {
        false
    }

    /// The activation scales of some rows of a step, block by block, and the stride between blocks.
    fn x_scales(&mut self, step: &Step, rows: &Range<usize>) -> (&[f32], usize);
}

/// The weights of one panel and slab, for the tiles of a step.
#[derive(Clone, Copy)]
pub(super) enum Weights {
    /// Decoded, in the order of the microkernel.
    Decoded(*const u8),
    /// Packed, decoded in registers by the only tile.
    Codes(*const u8),
    /// Packed, decoded into a buffer by the first tile.
    CodesFor(*const u8, *mut u8),
}

/// What the tiles of a step decode or prefetch.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Packed codes, to be prefetched.
    pub codes: *const u8,
    pub pairs: usize,
    /// Where tiles that decode put the weights: this step's or the next one's; null for other tiles.
    pub decoded: *mut u8,
}

/// The slabs of a panel after the first.
#[derive(Clone, Copy)]
pub(super) struct Following {
    /// Packed codes, slab by slab.
    pub codes: *const u8,
    /// Another buffer for decoded weights: slabs alternate.
    pub buffer: *mut u8,
}

/// Activations before decoding.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    /// f8e4m3fn, `cols` to a row.
    Codes(&'a [u8]),
    Plain(Floats<'a>),
}

/// The activations of a strip of rows.
#[derive(Clone, Copy)]
pub(super) struct X<'a> {
    /// The result's row for the first row.
    pub first_row: usize,
    pub values: Values<'a>,
    /// One scale per `rows_per_scale` rows and quantization block; none for plain activations.
    pub scales: &'a [f32],
    pub scale_layout: ScaleLayout,
    pub rows_per_scale: usize,
}

/// What is constant during a call.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub plan: &'a CpuPlan,
    pub kernels: &'static Kernels,
    pub weight: WeightRef<'a>,
    /// Whether codes that are decoded once are prefetched straight into the L1 cache.
    pub prefetches_into_l1: bool,
}

/// What all threads read: a call and its activations.
pub(super) struct SharedWork<'a> {
    pub call: Call<'a>,
    pub x: X<'a>,
}

impl SharedWork<'_> {
    /// Quantization blocks along K.
    pub(super) fn blocks(&self) -> usize {
        self.call.plan.problem.quant_block.count(self.call.plan.problem.k)
    }

    /// The scales of some blocks of an activation row; none if they are all 1.
    pub(super) fn x_scales(&self, row: usize, blocks: Range<usize>) -> Option<impl Iterator<Item = f32>> {
        let X { scales, scale_layout: ScaleLayout { row: row_stride, k }, .. } = self.x;
        let first = (row - self.x.first_row) / self.x.rows_per_scale * row_stride;
        (!scales.is_empty()).then(|| blocks.map(move |block| scales[first + block * k]))
    }

    /// The quantization blocks of a step.
    pub(super) fn blocks_of(&self, step: &Step) -> Range<usize> {
        // Sizes are powers of two, and shifts are faster than divisions.
        let shift = self.call.plan.problem.quant_block.size().trailing_zeros();
        step.depth.start >> shift..((step.depth.end - 1) >> shift) + 1
    }

    /// The scales of the weights of a step.
    fn w_scales(&self, step: &Step) -> &[f32] {
        &self.call.weight.panel_scales(step.panel)[self.blocks_of(step)]
    }

    /// The activation scales of a tile, gathered from the operand.
    pub(super) fn scales_beside_data(&self, step: &Step, rows: &Range<usize>) -> TileScales {
        assert!(rows.len() <= MAX_ROWS);
        let mut scales = TileScales::default();
        let blocks = self.blocks_of(step);
        for (at, row) in rows.clone().enumerate() {
            let scales = scales.iter_mut().take(blocks.len()).map(|scales| &mut scales[at]);
            match self.x_scales(row, blocks.clone()) {
                Some(row_scales) => scales.zip(row_scales).for_each(|(scale, own)| *scale = own),
                None => scales.for_each(|scale| *scale = 1.0),
            }
        }
        scales
    }

    /// The weights of a step from packed `codes`, with a `buffer` to decode into if several tiles use them.
    pub(super) fn weights_of(&self, step: &Step, codes: &[u8], buffer: &mut [u8]) -> Weights {
        let Call { plan, kernels, .. } = self.call;
        let pairs = step.depth.len().div_ceil(2);
        assert!(pairs * GROUP <= codes.len());
        assert!(plan.path == WeightPath::Streamed || pairs * GROUP * kernels.weight_bytes <= buffer.len());
        match plan.path {
            WeightPath::Streamed => Weights::Codes(codes.as_ptr()),
            WeightPath::Buffered if kernels.keeping_tiles.is_empty() => {
                self.decode_panel(codes, pairs, buffer, 0..pairs);
                Weights::Decoded(buffer.as_ptr())
            }
            WeightPath::Buffered => Weights::CodesFor(codes.as_ptr(), buffer.as_mut_ptr()),
        }
    }

    /// Decodes the pairs `range` of a packed panel that has `pairs` of them.
    pub(super) fn decode_panel(&self, codes: &[u8], pairs: usize, out: &mut [u8], range: Range<usize>) {
        assert!(range.end <= pairs && pairs * GROUP <= codes.len());
        assert!(pairs * GROUP * self.call.kernels.weight_bytes <= out.len());
        // SAFETY: both slices hold `pairs` groups, and the kernels were selected for this CPU.
        unsafe { (self.call.kernels.decode_panel)(codes.as_ptr(), pairs, out.as_mut_ptr(), range) }
    }

    /// Decodes the columns `depth` of `rows` into `x`: slab by slab, row by row.
    fn decode_x(&self, rows: Range<usize>, depth: Range<usize>, x: &mut [u8]) {
        let plan = self.call.plan;
        let (slab, row_bytes) = (plan.tile.slab, plan.x_row_bytes());
        // Row by row, as the hardware prefetches them.
        for (at, row) in rows.enumerate() {
            let slabs = depth.clone().step_by(slab).zip(x.chunks_mut(plan.block_rows * row_bytes));
            for (start, x) in slabs {
                let columns = start..depth.end.min(start + slab);
                self.decode_x_row(row - self.x.first_row, columns, &mut x[at * row_bytes..][..row_bytes]);
            }
        }
    }

    fn decode_x_row(&self, row: usize, columns: Range<usize>, out: &mut [u8]) {
        let len = columns.len();
        match &self.x.values {
            Values::Codes(codes) => {
                let codes = &codes[row * self.call.plan.problem.k..][columns];
                // SAFETY: `out` has room for a slab, a multiple of 64 values, and the kernels were selected
                // for this CPU.
                unsafe { (self.call.kernels.decode_row)(codes, out.as_mut_ptr()) }
            }
            Values::Plain(Floats::Bf16(mat)) if self.call.kernels.operand == FloatKind::Bf16 => {
                let pairs = out.as_chunks_mut::<2>().0;
                pairs[len..len.next_multiple_of(32)].fill([0; 2]);
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
                match floats {
                    Floats::F32(mat) => {
                        for (out, value) in out.iter_mut().zip(&mat.row(row)[columns]) {
                            *out = flush_subnormal(*value);
                        }
                    }
                    // bf16 dot products flush subnormal inputs to zero, so other ISAs must too.
                    Floats::Bf16(_) => {
                        floats.widened(row, columns, out);
                        out[..len].iter_mut().for_each(|value| *value = flush_subnormal(*value));
                    }
                    Floats::F16(_) => {
                        floats.widened(row, columns, out);
                    }
                }
            }
        }
    }
}

/// The result; threads write disjoint rectangles.
pub(super) struct Out<'a, T> {
    first: *mut T,
    stride: usize,
    cols: usize,
    borrow: PhantomData<&'a mut T>,
}

// SAFETY: `row` is the only access, and its callers write disjoint rectangles.
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

    /// Returns the part of a panel in `row` that is inside the matrix.
    ///
    /// # Safety
    /// The matrix has that row and panel, and no one else uses this part of it.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts disjoint")]
    unsafe fn row(&self, row: usize, panel: usize) -> &mut [T] {
        let col = panel * PANEL;
        // SAFETY: inside the matrix that `first` points to, as the caller promises.
        unsafe {
            let first = self.first.add(row * self.stride + col);
            std::slice::from_raw_parts_mut(first, PANEL.min(self.cols - col))
        }
    }
}

impl<T: Output> Out<'_, T> {
    /// Where tiles may store results directly: those of a full panel, in a type that the tiles store.
    ///
    /// # Safety
    /// The matrix has that row and panel.
    unsafe fn for_tiles(&self, row: usize, panel: usize, kernels: &Kernels) -> Option<*mut f32> {
        let col = panel * PANEL;
        let is_stored = T::KIND == FloatKind::F32 || kernels.narrows;
        // SAFETY: inside the matrix, as the caller promises.
        (is_stored && self.cols - col >= PANEL)
            .then(|| unsafe { self.first.add(row * self.stride + col) }.cast())
    }

    /// Rounds the accumulators of some rows of a panel into the matrix.
    ///
    /// # Safety
    /// The matrix has those rows and that panel, and no one else uses this part of it.
    unsafe fn store(&self, rows: Range<usize>, panel: usize, sums: &[f32], kernels: &Kernels) {
        // SAFETY: as the caller promises; the kernels were selected for this CPU.
        unsafe {
            if T::KIND == FloatKind::Bf16 {
                let col = panel * PANEL;
                let first = self.first.add(rows.start * self.stride + col).cast();
                (kernels.narrow_bf16)(sums, first, self.stride, PANEL.min(self.cols - col));
                return;
            }
            for (row, sums) in rows.zip(sums.chunks_exact(PANEL)) {
                let out = self.row(row, panel);
                T::narrow(&sums[..out.len()], out);
            }
        }
    }
}

/// Computes steps, with scratch for activations and accumulators.
pub(super) fn run<T: Output>(
    work: &SharedWork<'_>,
    mut fetch: impl Fetch,
    steps: impl Iterator<Item = Step>,
    x: &mut [u8],
    sums: &mut [f32],
    out: &Out<'_, T>,
) {
    let plan = work.call.plan;
    let mut steps = steps.peekable();
    let Some(first) = steps.peek() else { return };
    let kernels = work.call.kernels;
    let mut state = TileState::new();
    let prepared = Prepared::new(kernels, &mut state);
    fetch.begin(first);
    let mut rows = 0..0;
    let mut all_tiles = plan.tiles(rows.clone(), 1);
    let result = Target::Result { kind: T::KIND, exceeds_caches: plan.result_exceeds_caches() };
    while let Some(step) = steps.next() {
        if step.rows != rows {
            prepared.finish();
            rows = step.rows.clone();
            all_tiles = plan.tiles(rows.clone(), fetch.tiles_at_once());
            fetch.enter_rows(rows.clone());
        }
        if let Some(depth) = &step.decode {
            work.decode_x(rows.clone(), depth.clone(), x);
        }
        let mut weights = fetch.weights(&step);
        let slabs = slabs_at_once(plan, rows.len());
        let following = if slabs > 1 { fetch.following(&step, slabs) } else { None };
        let last_step = following.and_then(|_| steps.nth(slabs - 2));
        let is_last = last_step.as_ref().unwrap_or(&step).last;
        let w_scales = work.w_scales(&step).as_ptr();
        let x = &x[x_offset(plan, &step)..];
        let sums = &mut sums[step.slot * plan.block_rows * PANEL..][..plan.block_rows * PANEL];
        let mut tiles = all_tiles.clone();
        let count = tiles.count_tiles();
        // The first tile may decode the weights for the others.
        let alone = if matches!(weights, Weights::CodesFor(..)) { tiles.next_alone() } else { None };
        for run in alone.into_iter().chain(tiles.by_ref()) {
            let first = run.rows.start - rows.start;
            let sums = &mut sums[first * PANEL..][..run.rows.len() * PANEL];
            let first_sum = sums.as_mut_ptr();
            let x = &x[first * plan.x_row_bytes()..];
            let ahead = if run.tiles.start == 0 { fetch.ahead(steps.peek()) } else { None };
            let (x_scales, x_scale_stride) = fetch.x_scales(&step, &run.rows);
            // SAFETY: rows and panels of steps are inside the matrix.
            let direct = unsafe { out.for_tiles(run.rows.start, step.panel, kernels) }.filter(|_| is_last);
            let args = TileArgs {
                tiles: run.tiles.len(),
                rows: run.tile_rows,
                x: x.as_ptr(),
                x_stride: plan.x_row_bytes(),
                w: ptr::null(),
                keep: ahead.map_or(ptr::null_mut(), |ahead| ahead.decoded),
                ahead: ahead.map_or(ptr::null(), |ahead| ahead.codes),
                ahead_pairs: ahead.map_or(0, |ahead| ahead.pairs),
                into_l1: work.call.prefetches_into_l1,
                pairs: step.depth.len().div_ceil(2),
                block_pairs: plan.problem.quant_block.size() / 2,
                x_scales: x_scales.as_ptr(),
                x_scale_stride,
                w_scales,
                sums: if step.first { ptr::null() } else { first_sum },
                out: direct.unwrap_or(first_sum),
                out_stride: if direct.is_some() { out.stride } else { PANEL },
                target: if direct.is_some() { result } else { Target::Sums },
                slabs: following.zip(last_step.as_ref()).map(|(following, last)| MoreSlabs {
                    count: slabs - 1,
                    last_pairs: last.depth.len().div_ceil(2),
                    x_bytes: plan.block_rows * plan.x_row_bytes(),
                    codes: following.codes,
                    buffer: following.buffer,
                    sums: first_sum,
                }),
                state: prepared.state,
            };
            // SAFETY: `x`, `sums`, `out` and the scales have the rows and blocks of the tiles, and the
            // weights are those of the whole panel and slab.
            unsafe { multiply_tiles(kernels, run.tile_rows, weights, args) };
            if let Weights::CodesFor(_, buffer) = weights {
                weights = Weights::Decoded(buffer);
            }
            let is_narrowed_here = is_last && direct.is_none();
            if is_narrowed_here || !fetch.keeps_scales() {
                prepared.finish();
            }
            if is_narrowed_here {
                // SAFETY: as above, and no other thread has claimed this panel.
                unsafe { out.store(run.rows, step.panel, sums, kernels) };
            }
            fetch.meanwhile(steps.peek(), run.tiles, count);
        }
    }
    prepared.finish();
}

/// The calling thread, prepared for tiles.
struct Prepared<'a> {
    kernels: &'static Kernels,
    state: *mut TileState,
    borrow: PhantomData<&'a mut TileState>,
}

impl<'a> Prepared<'a> {
    fn new(kernels: &'static Kernels, state: &'a mut TileState) -> Self {
        let prepared = Self { kernels, state, borrow: PhantomData };
        // SAFETY: the kernels were selected for this CPU.
        unsafe { (kernels.enter)(prepared.state) };
        prepared
    }

    /// Completes what tiles have left to do.
    fn finish(&self) {
        // SAFETY: the operands of all tiles so far are still there.
        unsafe { (self.kernels.finish)(self.state) };
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // SAFETY: entered when this value was made.
        unsafe { (self.kernels.leave)() };
    }
}

/// Slabs of a panel that a call of the microkernel may go through: with few rows one is little work. The
/// tiles must be of equal size, for all of them to use weights that are decoded once.
fn slabs_at_once(plan: &CpuPlan, rows: usize) -> usize {
    let are_equal = rows.is_multiple_of(plan.tile.rows) || rows < plan.tile.rows;
    let covers_k = plan.pass_slabs * plan.tile.slab >= plan.problem.k;
    if plan.decodes_next_weights() && are_equal && covers_k { plan.pass_slabs } else { 1 }
}

/// Byte offset of a step's activations.
fn x_offset(plan: &CpuPlan, step: &Step) -> usize {
    ((step.depth.start - step.pass_start) >> plan.tile.slab.trailing_zeros())
        * plan.block_rows
        * plan.x_row_bytes()
}

/// Runs the microkernel on tiles of `rows` rows, for all tile columns of a panel.
///
/// # Safety
/// As the kernels ask, with the weights of a whole panel.
unsafe fn multiply_tiles(kernels: &Kernels, rows: usize, weights: Weights, mut args: TileArgs) {
    if args.ahead.is_null() {
        // Any cached line.
        let (Weights::Codes(near) | Weights::CodesFor(near, _) | Weights::Decoded(near)) = weights;
        args.ahead = near;
    }
    // SAFETY: the caller's promise; the kernels were selected for this CPU.
    unsafe {
        match weights {
            Weights::Codes(codes) => {
                args.w = codes;
                (kernels.decoding_tiles[rows - 1])(&args);
            }
            Weights::CodesFor(codes, buffer) => {
                (args.w, args.keep) = (codes, buffer);
                (kernels.keeping_tiles[rows - 1])(&args);
            }
            Weights::Decoded(values) => {
                args.w = values;
                let cols = kernels.tile_cols;
                for _ in 0..PANEL / cols {
                    (kernels.tiles[rows - 1])(&args);
                    args.w = args.w.add(args.pairs * 2 * cols * kernels.weight_bytes);
                    args.out = args.out.add(cols);
                    if !args.sums.is_null() {
                        args.sums = args.sums.add(cols);
                    }
                }
            }
        }
    }
}
