//! Work distribution over threads.
//!
//! File systems serialize writes to one file. So threads spread over several shards, and share one only if
//! there are fewer shards than threads.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    Progress,
    block::Scratch,
    place::Work,
    shard::{Piece, Writer},
    unit::{Unit, units},
};
use crate::{Checkpoint, CheckpointError, OutputShard, error::Result};

/// Shards written concurrently. More would lose more work if the process is killed.
const MOST_OPEN: usize = 4;

/// Writes shards into the work folder on `threads` threads.
pub(super) fn write(
    checkpoint: &Checkpoint,
    shards: &[&OutputShard],
    threads: usize,
    work: &Work,
    progress: &dyn Progress,
) -> Result<()> {
    let state = State { waiting: shards.iter(), open: Vec::new(), failure: None };
    let queue = Queue { checkpoint, work, progress, state: Mutex::new(state) };
    std::thread::scope(|scope| {
        for index in 1..threads {
            let thread = std::thread::Builder::new().name(format!("octile-{index}"));
            // A failed spawn is harmless: the other threads do its work.
            let _ = thread.spawn_scoped(scope, || queue.work());
        }
        queue.work();
    });
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failure.map_or(Ok(()), Err)
}

struct Queue<'a> {
    checkpoint: &'a Checkpoint,
    work: &'a Work,
    progress: &'a dyn Progress,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    waiting: std::slice::Iter<'a, &'a OutputShard>,
    /// Shards with unclaimed units.
    open: Vec<Arc<Open<'a>>>,
    failure: Option<CheckpointError>,
}

/// A shard that is being written.
struct Open<'a> {
    writer: Writer<'a>,
    units: Vec<Unit>,
    next: AtomicUsize,
    /// Unfinished units.
    left: AtomicUsize,
    pieces: Mutex<Vec<Piece>>,
}

impl<'a> Queue<'a> {
    /// Executes units until none are left.
    fn work(&self) {
        let (mut scratch, mut current) = (Scratch::default(), None);
        loop {
            let done = match self.next(&mut current) {
                Ok(None) => return,
                Ok(Some((shard, unit))) => self.unit(&shard, unit, &mut scratch),
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

    /// Claims the next unit for a thread that last worked on `current`; `None` when done or after a failure.
    fn next(&self, current: &mut Option<Arc<Open<'a>>>) -> Result<Option<(Arc<Open<'a>>, usize)>> {
        // Another thread panicked: stop.
        let Ok(mut state) = self.state.lock() else { return Ok(None) };
        loop {
            if state.failure.is_some() {
                return Ok(None);
            }
            if let Some(shard) = current.take() {
                let unit = shard.next.fetch_add(1, Ordering::Relaxed);
                if unit < shard.units.len() {
                    *current = Some(shard.clone());
                    return Ok(Some((shard, unit)));
                }
                state.open.retain(|other| !Arc::ptr_eq(other, &shard));
            }
            let waiting = if state.open.len() < MOST_OPEN { state.waiting.next() } else { None };
            *current = match waiting {
                Some(shard) => {
                    self.progress.begin(&shard.name);
                    let shard = Arc::new(Open::new(self.checkpoint, shard, self.work)?);
                    if shard.units.is_empty() {
                        self.finish(&shard)?;
                    }
                    state.open.push(shard.clone());
                    Some(shard)
                }
                // Join the shard with the fewest threads.
                None => state.open.iter().min_by_key(|shard| Arc::strong_count(shard)).cloned(),
            };
            if current.is_none() {
                return Ok(None);
            }
        }
    }

    fn unit(&self, shard: &Open<'a>, unit: usize, scratch: &mut Scratch) -> Result<()> {
        let (pieces, read) = shard.writer.unit(&shard.units[unit], scratch)?;
        shard.pieces.lock().unwrap_or_else(PoisonError::into_inner).extend(pieces);
        self.progress.advance(read as u64);
        let is_last = shard.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last { self.finish(shard) } else { Ok(()) }
    }

    fn finish(&self, shard: &Open<'a>) -> Result<()> {
        let pieces = std::mem::take(&mut *shard.pieces.lock().unwrap_or_else(PoisonError::into_inner));
        self.work.finished(&shard.writer.finish(pieces)?)
    }
}

impl<'a> Open<'a> {
    fn new(checkpoint: &'a Checkpoint, shard: &'a OutputShard, work: &Work) -> Result<Self> {
        let (writer, header) = Writer::new(checkpoint, shard, &work.content())?;
        let units = units(checkpoint, &shard.tasks);
        let left = AtomicUsize::new(units.len());
        Ok(Self { writer, units, next: AtomicUsize::new(0), left, pieces: Mutex::new(vec![header]) })
    }
}
