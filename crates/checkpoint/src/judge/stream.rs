//! Reads every fp8 weight, a few rows at a time, on all cores.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use octile_runtime::cpu::RowConverter;

use super::{
    codes::{Histogram, Tables, Tile},
    defect::Defect,
    format::Fp8Weight,
    layer::{self, JudgedLayer, Tally, scale_of_tile},
    original::{self, Match, Original},
};
use crate::{
    BLOCK, Checkpoint, Progress,
    error::{CheckpointError, Result},
    matrix::{Matrix, elements},
    read::{ShardFile, append_scales},
};

/// Codes per unit of work, unless a row of blocks has more.
const UNIT: usize = 1 << 19;

/// Columns of a unit: bounds the buffers of a thread, which hold the original too.
const WIDEST: usize = 64 * BLOCK;

/// The weights to read, and what they are compared with.
pub(super) struct Stream<'a> {
    pub checkpoint: &'a Checkpoint,
    pub against: Option<&'a Checkpoint>,
    pub weights: &'a [Fp8Weight],
    pub progress: &'a dyn Progress,
}

/// A judged weight with its index, codes and defects.
pub(super) type Judged = (usize, JudgedLayer, Histogram, Vec<Defect>);

impl Stream<'_> {
    /// Judges all weights. Results are in their order.
    pub(super) fn run(&self, threads: usize) -> Result<Vec<Judged>> {
        let state = State { next: 0, open: None, judged: Vec::new(), failure: None };
        let queue = Queue { stream: self, tables: Tables::new(), state: Mutex::new(state) };
        std::thread::scope(|scope| {
            for index in 1..threads {
                let thread = std::thread::Builder::new().name(format!("octile-{index}"));
                // A failed spawn is harmless: the other threads do its work.
                let _ = thread.spawn_scoped(scope, || queue.work());
            }
            queue.work();
        });
        let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let mut judged = state.judged;
        judged.sort_by_key(|(at, ..)| *at);
        Ok(judged)
    }

    fn open(&self, at: usize) -> Result<Job> {
        let weight = &self.weights[at];
        let tensor = self.checkpoint.tensor(weight.tensor);
        self.progress.begin(&tensor.name);
        let (mut bytes, mut scales) = (Vec::new(), Vec::new());
        let reader = self.checkpoint.reader(weight.scales.tensor)?;
        reader.read_rows(0..reader.rows(), &mut bytes)?;
        append_scales(weight.scales.dtype, &bytes, &mut scales);
        let mut defects = Vec::new();
        let original = match self.against {
            None => None,
            Some(against) => original::find(against, &tensor.name, weight)?.map_err(|d| defects.push(d)).ok(),
        };
        let units = units(weight);
        let tiles: usize = weight.batch * weight.tiles().into_iter().product::<usize>();
        let fitted = if original.is_some() { tiles } else { 0 };
        let tally = Tally {
            max: vec![0; tiles],
            rms: vec![0.0; tiles],
            fit: vec![f32::NAN; fitted],
            cosine: vec![f32::NAN; fitted],
            ..Tally::default()
        };
        Ok(Job {
            at,
            matrix: Matrix::whole(weight.tensor, tensor, weight.batch * weight.rows, weight.cols),
            file: self.checkpoint.shards()[weight.tensor.shard].open()?,
            original,
            scales,
            left: AtomicUsize::new(units.len()),
            units,
            next: AtomicUsize::new(0),
            found: Mutex::new((tally, defects)),
        })
    }
}

struct Queue<'a> {
    stream: &'a Stream<'a>,
    tables: Tables,
    state: Mutex<State>,
}

struct State {
    /// The next weight to open.
    next: usize,
    /// The weight with unclaimed units.
    open: Option<Arc<Job>>,
    judged: Vec<Judged>,
    failure: Option<CheckpointError>,
}

/// A weight that is being read.
struct Job {
    at: usize,
    matrix: Matrix,
    file: ShardFile,
    original: Option<Original>,
    scales: Vec<f32>,
    units: Vec<Unit>,
    next: AtomicUsize,
    /// Unfinished units.
    left: AtomicUsize,
    found: Mutex<(Tally, Vec<Defect>)>,
}

/// Some whole tiles of one matrix of the stack.
struct Unit {
    matrix: usize,
    rows: Range<usize>,
    cols: Range<usize>,
}

fn units(weight: &Fp8Weight) -> Vec<Unit> {
    let width = weight.cols.min(WIDEST);
    let height = (UNIT / (width * BLOCK)).max(1) * BLOCK;
    let mut units = Vec::new();
    for matrix in 0..weight.batch {
        for row in (0..weight.rows).step_by(height) {
            for col in (0..weight.cols).step_by(width) {
                let (rows, cols) = (row..weight.rows.min(row + height), col..weight.cols.min(col + width));
                units.push(Unit { matrix, rows, cols });
            }
        }
    }
    units
}

/// Buffers that a thread reuses.
#[derive(Default)]
struct Buffers {
    codes: Vec<u64>,
    original: Vec<u64>,
    transposed: Vec<u64>,
    decoded: Vec<f32>,
    values: Vec<f32>,
    tiles: Vec<(usize, Tile, usize, Option<Match>)>,
}

impl Queue<'_> {
    fn work(&self) {
        let mut buffers = Buffers::default();
        loop {
            let done = match self.next() {
                Ok(None) => return,
                Ok(Some((job, unit))) => self.unit(&job, &job.units[unit], &mut buffers),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                if let Ok(mut state) = self.state.lock() {
                    state.failure.get_or_insert(error);
                }
                return;
            }
        }
    }

    /// Claims the next unit; `None` when done or after a failure.
    fn next(&self) -> Result<Option<(Arc<Job>, usize)>> {
        let Ok(mut state) = self.state.lock() else { return Ok(None) };
        loop {
            if state.failure.is_some() {
                return Ok(None);
            }
            if let Some(job) = &state.open {
                let unit = job.next.fetch_add(1, Ordering::Relaxed);
                if unit < job.units.len() {
                    return Ok(Some((job.clone(), unit)));
                }
                state.open = None;
            }
            if state.next == self.stream.weights.len() {
                return Ok(None);
            }
            state.open = Some(Arc::new(self.stream.open(state.next)?));
            state.next += 1;
        }
    }

    fn unit(&self, job: &Job, unit: &Unit, buffers: &mut Buffers) -> Result<()> {
        let weight = &self.stream.weights[job.at];
        let (width, first) = (unit.cols.len(), unit.matrix * weight.rows + unit.rows.start);
        let rows = first..first + unit.rows.len();
        let count = rows.len() * width;
        let Buffers { codes, original, transposed, decoded, values, tiles } = buffers;
        job.matrix.read(&job.file, &rows, &unit.cols, codes, transposed)?;
        let codes = elements::<u8>(codes, count);
        if let Some(source) = &job.original {
            source.matrix.read(&source.file, &rows, &unit.cols, original, transposed)?;
            values.resize(count, 0.0);
            source.widen(original, (rows.start, unit.cols.start), width, values);
            decoded.resize(count, 0.0);
            let ones = vec![1.0; width.div_ceil(BLOCK)];
            RowConverter::default().decode_rows(codes, width, BLOCK, &ones, decoded);
        }
        tiles.clear();
        let mut histogram = Histogram::default();
        let ([height, breadth], [down, across]) = (weight.tile(), weight.tiles());
        for top in (0..unit.rows.len()).step_by(height) {
            for left in (0..width).step_by(breadth) {
                let (bottom, right) = (unit.rows.len().min(top + height), width.min(left + breadth));
                let span = |row: usize| row * width + left..row * width + right;
                let elements = (bottom - top) * (right - left);
                let tile =
                    self.tables.tile((top..bottom).map(|row| &codes[span(row)]), elements, &mut histogram);
                let place = (unit.rows.start + top) / height * across + (unit.cols.start + left) / breadth;
                let at = unit.matrix * down * across + place;
                let found = job.original.as_ref().map(|_| {
                    let rows = (top..bottom).map(|row| (&decoded[span(row)], &values[span(row)]));
                    original::compare(rows, usable(job.scales[scale_of_tile(weight, at)]))
                });
                tiles.push((at, tile, elements, found));
            }
        }
        let read = count * (1 + job.original.as_ref().map_or(0, |source| source.matrix.dtype.bitsize() / 8));
        self.stream.progress.advance(read as u64);
        self.merge(job, weight, tiles, &histogram)
    }

    fn merge(
        &self,
        job: &Job,
        weight: &Fp8Weight,
        tiles: &[(usize, Tile, usize, Option<Match>)],
        histogram: &Histogram,
    ) -> Result<()> {
        let mut found = job.found.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = &mut found.0;
        tally.histogram.add(histogram);
        for (at, tile, elements, matched) in tiles {
            tally.max[*at] = tile.max;
            tally.rms[*at] = (tile.power / *elements as f64).sqrt() as f32;
            let scale = usable(job.scales[scale_of_tile(weight, *at)]);
            let square = f64::from(scale) * f64::from(scale);
            tally.power += square * tile.power;
            tally.noise += square * tile.noise;
            if let Some(matched) = matched {
                tally.clipped += matched.clipped;
                tally.error += square * matched.error;
                tally.original += square * matched.power;
                let fit = f64::from(scale) * matched.cross / tile.power;
                let is_lost = tile.power == 0.0 && matched.power > 0.0;
                tally.fit[*at] = if is_lost { f32::INFINITY } else { fit as f32 };
                tally.cosine[*at] = (matched.cross / (tile.power * matched.power).sqrt()) as f32;
            }
        }
        let is_last = job.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if !is_last {
            return Ok(());
        }
        let (tally, mut defects) = std::mem::take(&mut *found);
        drop(found);
        let tensors = (
            self.stream.checkpoint.tensor(weight.tensor),
            self.stream.checkpoint.tensor(weight.scales.tensor),
        );
        let layer = layer::judge(weight, tensors, &job.scales, &tally, &mut defects);
        if let Ok(mut state) = self.state.lock() {
            state.judged.push((job.at, layer, tally.histogram, defects));
        }
        Ok(())
    }
}

/// A scale to compute with; an unusable one is reported on its own.
fn usable(scale: f32) -> f32 {
    if scale.is_normal() { scale } else { 1.0 }
}
