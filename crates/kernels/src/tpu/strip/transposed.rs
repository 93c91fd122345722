//! Rows of x that are transposed before they are dequantized: rows lie along the lanes, where a scale per
//! row is one vector for all sublanes. Transposing codes takes a quarter of the XLU's time that repeating a
//! scale for each row along the lanes takes.
//!
//! Products are `w * x^T`, over all of K at once; a finished chunk is transposed on its way to the result.

use octile_core::plan::{BufferId, tpu::TpuPlan};
use octile_mosaic::{FunctionBuilder, Value};

use super::dequantized::{MXUS, dequantized, is_left_over, store_block, sum_apart};
use crate::{
    stablehlo::float,
    tpu::parts::{
        frame::Frame,
        scales::{Scales, scaled, times},
        tile::Buffer,
    },
};

/// What a block of rows is computed from, and where its result goes.
pub(super) struct Codes {
    pub(super) x: Buffer,
    /// One row for each k-block.
    pub(super) x_scale: Buffer,
    pub(super) w: Buffer,
    pub(super) w_scale: Scales,
    pub(super) out: Buffer,
}

/// Buffers of dequantized operands: chunks of rows of x, transposed, and either all of w or two chunks of its
/// columns.
#[derive(Clone, Copy)]
pub(super) struct Dequantized {
    x: Value,
    w: Value,
    overlap: Option<Overlap>,
}

/// Buffers by which the work of two blocks of rows overlaps, although a wait lies between them.
#[derive(Clone, Copy)]
struct Overlap {
    /// The first k-blocks of the next block's first chunk of rows, dequantized.
    ahead: Value,
    /// The last products of the block before, which are not yet in its result.
    late: Value,
}

/// Rows that are multiplied at once.
#[derive(Clone, Copy)]
pub(super) struct RowChunk {
    row: usize,
    rows: usize,
    /// Its buffer.
    slot: usize,
}

/// Rows and columns that are multiplied at once.
#[derive(Clone, Copy)]
struct Place {
    chunk: RowChunk,
    /// First column and number.
    columns: (usize, usize),
    is_left_over: bool,
}

/// Products of slices along K, which add up to a part of the result.
pub(super) struct Products {
    place: Place,
    slices: Vec<Value>,
}

/// Rows and columns of a block's result, each as first and number.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) rows: (usize, usize),
    pub(super) columns: (usize, usize),
}

impl Dequantized {
    /// Declares the buffers, where the plan has any.
    pub(super) fn declare(f: &mut Frame<'_>) -> Option<Self> {
        f.plan.memory.get(BufferId::WBf16)?;
        let x = f.scratch_copies("x_bf16", BufferId::XBf16);
        let w = f.scratch_copies("w_bf16", BufferId::WBf16);
        let overlap = f.plan.overlaps_rows().then(|| Overlap {
            ahead: f.scratch("x_ahead", BufferId::XAhead),
            late: f.scratch_copies("late", BufferId::Late),
        });
        Some(Self { x, w, overlap })
    }

    /// The chunks of a block of rows, given as first row and number.
    fn chunks(plan: &TpuPlan, (begins, rows): (usize, usize)) -> Vec<RowChunk> {
        let slots = plan.memory.get(BufferId::XBf16).map_or(1, |buffer| buffer.copies);
        let end = begins + rows;
        let chunk = |(number, row): (usize, usize)| RowChunk {
            row,
            rows: plan.chunk.0.min(end - row),
            slot: number % slots,
        };
        (begins..end).step_by(plan.chunk.0).enumerate().map(chunk).collect()
    }

    /// Multiplies the first block of rows with some columns, after dequantizing these, and the rows before
    /// the first of them. The last products are complete only after the wait that follows: it finishes those
    /// that the columns before have left, and returns its own. Begins to dequantize the `next` block, if any.
    pub(super) fn multiply_first(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        (codes, block): (&Codes, (usize, usize)),
        columns: (usize, usize),
        mut late: Vec<Products>,
        mut next: Option<(&Codes, (usize, usize))>,
    ) -> Vec<Products> {
        let rows = Self::chunks(plan, block);
        let columns = columns_of(plan, columns).into_iter();
        for place in places(columns.flat_map(|columns| rows.iter().map(move |&chunk| (chunk, columns)))) {
            if place.chunk.row == block.0 {
                self.dequantize_columns(b, plan, codes, place.columns);
            }
            if place.columns.0 == 0 {
                self.dequantize_rows(b, plan, codes, place.chunk, 0);
            }
            late.push(self.products(b, plan, place));
            if let Some((codes, block)) = next.take() {
                self.dequantize_ahead(b, plan, codes, block);
            }
            if late.len() > MXUS {
                finish(b, plan, codes, late.remove(0));
            }
        }
        late
    }

    /// Multiplies a later block of rows with all columns, which are dequantized already. Finishes the last
    /// products of the block `before`, keeps its own, and begins to dequantize the `next` one.
    pub(super) fn multiply(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        (codes, block): (&Codes, (usize, usize)),
        before: Option<(&Codes, (usize, usize))>,
        next: Option<(&Codes, (usize, usize))>,
    ) {
        let (early, late) = Self::places(plan, block);
        for (number, &place) in early.iter().chain(&late).enumerate() {
            if place.columns.0 == 0 {
                let is_ready = self.overlaps() && place.chunk.row == block.0;
                let ready = if is_ready { plan.blocks_ahead() } else { 0 };
                self.dequantize_rows(b, plan, codes, place.chunk, ready);
            }
            let products = self.products(b, plan, place);
            if number == 0 {
                if let Some((codes, block)) = before {
                    self.finish_late(b, plan, codes, block);
                }
                if let Some((codes, block)) = next {
                    self.dequantize_ahead(b, plan, codes, block);
                }
            }
            match number.checked_sub(early.len()) {
                Some(number) if self.overlaps() => self.keep(b, number, products),
                _ => finish(b, plan, codes, products),
            }
        }
    }

    /// Finishes the last products of a block.
    pub(super) fn finish_late(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        block: (usize, usize),
    ) {
        for (number, place) in Self::places(plan, block).1.into_iter().enumerate() {
            let slices = (0..slices_of(plan, place)).map(|slice| {
                let shape = (place.columns.1, place.chunk.rows);
                self.late(b, number + slice).load(b, (0, 0), shape)
            });
            let slices = slices.collect();
            finish(b, plan, codes, Products { place, slices });
        }
    }

    /// Dequantizes the first k-blocks of a block's first chunk.
    pub(super) fn dequantize_ahead(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        block: (usize, usize),
    ) {
        let chunk = Self::chunks(plan, block)[0];
        let to = Buffer::whole(self.overlap().ahead);
        for k_block in 0..plan.blocks_ahead() {
            self.dequantize_block(b, plan, codes, chunk, k_block, &to);
        }
    }

    /// The parts of a later block's result that are complete at its end, and the one of the last products.
    pub(super) fn parts(plan: &TpuPlan, (begins, rows): (usize, usize)) -> (Vec<Part>, Part) {
        let late = Self::places(plan, (begins, rows)).1;
        let (row, n, end) = (late[0].chunk.row, plan.held().n, begins + rows);
        let col = if late.iter().all(|place| place.chunk.row == row) { late[0].columns.0 } else { 0 };
        let above = Part { rows: (begins, row - begins), columns: (0, n) };
        let beside = Part { rows: (row, end - row), columns: (0, col) };
        let early = [above, beside].into_iter().filter(|part| part.rows.1 > 0 && part.columns.1 > 0);
        (early.collect(), Part { rows: (row, end - row), columns: (col, n - col) })
    }

    /// What is multiplied at once in a later block; the last ones apart, as many as there are MXUs.
    fn places(plan: &TpuPlan, block: (usize, usize)) -> (Vec<Place>, Vec<Place>) {
        let columns = columns_of(plan, (0, plan.held().n));
        let chunks = Self::chunks(plan, block).into_iter();
        let mut early = places(chunks.flat_map(|chunk| columns.iter().map(move |&columns| (chunk, columns))));
        let is_cut = early.last().is_some_and(|&last| slices_of(plan, last) == MXUS);
        let late = if is_cut { 1 } else { MXUS.min(early.len()) };
        let late = early.split_off(early.len() - late);
        (early, late)
    }

    /// Whether a block of rows leaves work to the next one.
    pub(super) fn overlaps(self) -> bool {
        self.overlap.is_some()
    }

    fn overlap(self) -> Overlap {
        self.overlap.expect("blocks of rows overlap")
    }

    /// The buffer of a late product.
    fn late(self, b: &mut FunctionBuilder, number: usize) -> Buffer {
        let number = b.i32(number);
        Buffer::one_of(b, self.overlap().late, number)
    }

    fn keep(self, b: &mut FunctionBuilder, number: usize, products: Products) {
        for (slice, product) in products.slices.into_iter().enumerate() {
            self.late(b, number + slice).store(b, product, (0, 0));
        }
    }

    /// Dequantizes a chunk of rows, except for the first k-blocks, which are `ready`.
    fn dequantize_rows(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        chunk: RowChunk,
        ready: usize,
    ) {
        let qb = plan.problem.quant_block.size();
        let slot = b.i32(chunk.slot);
        let to = Buffer::one_of(b, self.x, slot);
        if ready > 0 {
            let values = Buffer::whole(self.overlap().ahead).load(b, (0, 0), (ready * qb, chunk.rows));
            to.store(b, values, (0, 0));
        }
        for k_block in ready..plan.k_blocks() {
            self.dequantize_block(b, plan, codes, chunk, k_block, &to);
        }
    }

    fn dequantize_block(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        chunk: RowChunk,
        k_block: usize,
        to: &Buffer,
    ) {
        let qb = plan.problem.quant_block.size();
        let length = plan.block_length(k_block);
        let block = codes.x.load(b, (chunk.row, k_block * qb), (chunk.rows, length));
        let block = b.transpose(block);
        let scale = codes.x_scale.load(b, (k_block, chunk.row), (1, chunk.rows));
        let values = dequantized(b, block, scale);
        store_block(b, to, values, (k_block * qb, 0), (qb, chunk.rows));
    }

    fn dequantize_columns(
        self,
        b: &mut FunctionBuilder,
        plan: &TpuPlan,
        codes: &Codes,
        (col, cols): (usize, usize),
    ) {
        let qb = plan.problem.quant_block.size();
        let (to, first) = self.columns(b, plan, col);
        for offset in (0..cols).step_by(qb) {
            let rows = qb.min(cols - offset);
            for k_block in 0..plan.k_blocks() {
                let length = plan.block_length(k_block);
                let block = codes.w.load(b, (col + offset, k_block * qb), (rows, length));
                let scale = codes.w_scale.get(b, col + offset, rows, k_block);
                let values = dequantized(b, block, scale);
                store_block(b, &to, values, (first + offset, k_block * qb), (rows, qb));
            }
        }
    }

    /// The buffer of dequantized columns, and their first row in it.
    fn columns(self, b: &mut FunctionBuilder, plan: &TpuPlan, col: usize) -> (Buffer, usize) {
        let (slot, first) = match plan.keeps_dequantized_w() {
            true => (0, col),
            false => (col / plan.chunk.1 % 2, 0),
        };
        let slot = b.i32(slot);
        (Buffer::one_of(b, self.w, slot), first)
    }

    fn products(self, b: &mut FunctionBuilder, plan: &TpuPlan, place: Place) -> Products {
        let (chunk, (col, cols)) = (place.chunk, place.columns);
        let slot = b.i32(chunk.slot);
        let x = Buffer::one_of(b, self.x, slot);
        let (w, first) = self.columns(b, plan, col);
        let slices = plan.matmul_slices(place.is_left_over).into_iter();
        let slices = slices.map(|(k, length)| {
            let lhs = w.load(b, (first, k), (cols, length));
            let rhs = x.load(b, (k, 0), (length, chunk.rows));
            b.matmul_by_columns(lhs, rhs)
        });
        Products { place, slices: slices.collect() }
    }
}

/// Moves products to the result.
pub(super) fn finish(b: &mut FunctionBuilder, plan: &TpuPlan, codes: &Codes, products: Products) {
    let Products { place, slices } = products;
    let product = sum_apart(b, slices);
    // Narrow values are transposed faster.
    let result = b.to_float(product, float(plan.kernel_out()));
    let result = b.transpose(result);
    codes.out.store(b, result, (place.chunk.row, place.columns.0));
}

/// Sums of scaled products: a part of a block's result.
pub(super) struct Sums {
    row: usize,
    /// First column and sum of each quantization block, transposed.
    columns: Vec<(usize, Value)>,
}

/// Multiplies a block of rows with some columns, both codes; every k-block has its own matmul. Finishes the
/// sums that the columns before have left, and returns its own last ones: see
/// [`Dequantized::multiply_first`].
pub(super) fn multiply_codes(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    codes: &Codes,
    (begins, count): (usize, usize),
    (first, columns): (usize, usize),
    mut late: Option<Sums>,
) -> Option<Sums> {
    let qb = plan.problem.quant_block.size();
    let (rows, cols) = plan.chunk;
    let width = cols.min(qb);
    let Codes { x, x_scale, w, w_scale, .. } = codes;
    for row in (begins..begins + count).step_by(rows) {
        let rows = rows.min(begins + count - row);
        for col in (first..first + columns).step_by(cols) {
            let cols = cols.min(first + columns - col);
            let mut sums: Vec<Value> = Vec::new();
            for k_block in 0..plan.k_blocks() {
                let length = plan.block_length(k_block);
                let lhs = w.load(b, (col, k_block * qb), (cols, length));
                let rhs = x.load(b, (row, k_block * qb), (rows, length));
                let product = b.matmul(lhs, rhs);
                let of_rows = x_scale.load(b, (k_block, row), (1, rows));
                for (part, offset) in (0..cols).step_by(width).enumerate() {
                    let width = width.min(cols - offset);
                    let of_columns = w_scale.get(b, col + offset, width, k_block);
                    let scale = times(b, of_rows, of_columns);
                    let product = b.slice(product, &[offset, 0], &[width, rows]);
                    let product = scaled(b, product, scale);
                    match sums.get_mut(part) {
                        None => sums.push(product),
                        Some(sum) => *sum = b.addf(*sum, product),
                    }
                }
            }
            let columns = sums.into_iter().enumerate().map(|(part, sum)| (col + part * width, sum));
            let before = late.replace(Sums { row, columns: columns.collect() });
            finish_sums(b, plan, codes, before);
        }
    }
    late
}

/// Moves sums to the result.
pub(super) fn finish_sums(b: &mut FunctionBuilder, plan: &TpuPlan, codes: &Codes, sums: Option<Sums>) {
    if let Some(Sums { row, columns }) = sums {
        for (col, sum) in columns {
            // Narrow values are transposed faster.
            let result = b.to_float(sum, float(plan.kernel_out()));
            let result = b.transpose(result);
            codes.out.store(b, result, (row, col));
        }
    }
}

/// Matmuls between two waits; the last one of an odd number is left over.
fn places(order: impl Iterator<Item = (RowChunk, (usize, usize))>) -> Vec<Place> {
    let place = |(chunk, columns)| Place { chunk, columns, is_left_over: false };
    let mut places: Vec<Place> = order.map(place).collect();
    let count = places.len();
    if let Some(last) = places.last_mut() {
        last.is_left_over = is_left_over(count - 1, count);
    }
    places
}

/// Number of slices along K.
fn slices_of(plan: &TpuPlan, place: Place) -> usize {
    plan.matmul_slices(place.is_left_over).len()
}

/// Columns that are multiplied at once: first column and number.
fn columns_of(plan: &TpuPlan, (begins, columns): (usize, usize)) -> Vec<(usize, usize)> {
    let (end, most) = (begins + columns, plan.chunk.1);
    (begins..end).step_by(most).map(|col| (col, most.min(end - col))).collect()
}
