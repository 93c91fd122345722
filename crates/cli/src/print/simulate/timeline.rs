//! A simulated timeline laid out in rows: one per unit, DMAs in as many rows as overlap.

use octile_mosaic::interpret::{Event, Timeline, Work};

/// The part of a timeline that is drawn.
pub(crate) struct Layout<'t> {
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// What is drawn, each with its row.
    pub bars: Vec<Bar<'t>>,
    /// The cycle at which the drawing ends.
    pub end: f64,
    /// The cycle at which the run ends.
    pub run_end: f64,
}

/// Work of one kind without a visible gap.
pub(crate) struct Bar<'t> {
    /// Its row.
    pub row: usize,
    /// First cycle.
    pub start: f64,
    /// The cycle after the last.
    pub end: f64,
    /// The first event in it.
    pub event: &'t Event,
}

/// What the colours stand for, in the order of the legend.
pub(crate) const LEGEND: [(Work, &str, &str); 5] = [
    (Work::Matmul, "MXU", "#3b7dd8"),
    (Work::Vector, "VPU", "#3fa66b"),
    (Work::Scalar, "scalar unit", "#8b95a3"),
    (Work::Wait, "core waits for a DMA", "#d0584f"),
    (Work::Copy, "DMA", "#e08a2c"),
];

/// Rows of the core: the matrix units, the vector and scalar units, waits.
const CORE_ROWS: [&str; 3] = ["MXU", "VPU, scalar", "waiting"];
/// Bars closer than this part of the drawing are drawn as one.
const VISIBLE_GAP: f64 = 1e-3;

impl<'t> Layout<'t> {
    /// Lays out the first `most` events.
    pub(crate) fn new(timeline: &'t Timeline, most: usize) -> Self {
        let events = &timeline.events[..timeline.events.len().min(most)];
        let end_of = |events: &[Event]| events.iter().map(|event| event.end).fold(1.0, f64::max);
        let end = end_of(events);
        let lanes = dma_lanes(events);
        let lane_count = lanes.iter().map(|lane| lane + 1).max().unwrap_or(0);
        let mut bars: Vec<Bar<'t>> = Vec::new();
        let mut last_in_row = vec![None; CORE_ROWS.len() + lane_count];
        for (event, lane) in events.iter().zip(lanes) {
            let row = match event.work {
                Work::Matmul => 0,
                Work::Vector | Work::Scalar => 1,
                Work::Wait => 2,
                Work::Copy => CORE_ROWS.len() + lane,
            };
            let last = last_in_row[row].map(|at: usize| &mut bars[at]);
            match last {
                // Two DMAs are two bars, however close.
                Some(last)
                    if event.work == last.event.work
                        && event.work != Work::Copy
                        && event.start - last.end < VISIBLE_GAP * end =>
                {
                    last.end = last.end.max(event.end);
                }
                _ => {
                    last_in_row[row] = Some(bars.len());
                    bars.push(Bar { row, start: event.start, end: event.end, event });
                }
            }
        }
        let dmas = (1..=lane_count).map(|lane| format!("DMA {lane}"));
        let rows = CORE_ROWS.iter().map(|&name| name.to_owned()).chain(dmas).collect();
        Self { rows, bars, end, run_end: timeline.figures.cycles.max(end) }
    }

    /// Round cycle counts for grid lines, about eight of them.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> {
        let rough = self.end / 8.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= rough);
        let (step, end) = (step.unwrap_or(rough), self.end);
        (0u32..).map(move |tick| step * f64::from(tick)).take_while(move |cycles| *cycles <= end)
    }
}

/// The colour of a kind of work.
pub(crate) fn colour(work: Work) -> &'static str {
    LEGEND.iter().find(|(known, ..)| *known == work).map_or("#8b95a3", |(.., colour)| colour)
}

/// What a bar stands for: `wait on w_sem, line 12: cycles 100 to 180`.
pub(crate) fn caption(bar: &Bar<'_>) -> String {
    let line = bar.event.line.map(|line| format!(", line {line}")).unwrap_or_default();
    format!("{}{line}: cycles {:.0} to {:.0}", bar.event.label, bar.start, bar.end)
}

/// For each event, the first row in which a DMA does not overlap an earlier one.
fn dma_lanes(events: &[Event]) -> Vec<usize> {
    let mut busy_until: Vec<f64> = Vec::new();
    let mut lane_of = |event: &Event| {
        if event.work != Work::Copy {
            return 0;
        }
        let free = busy_until.iter().position(|end| *end <= event.start);
        let lane = free.unwrap_or_else(|| {
            busy_until.push(0.0);
            busy_until.len() - 1
        });
        busy_until[lane] = event.end;
        lane
    };
    events.iter().map(&mut lane_of).collect()
}

#[cfg(test)]
mod tests {
    use octile_core::device::tpu::TPU_CHIPS;
    use octile_mosaic::interpret::Figures;

    use super::*;

    #[test]
    fn overlapping_dmas_have_rows_of_their_own() {
        let event = |work, start: f64, end: f64| Event {
            work,
            start,
            end,
            line: None,
            label: String::new(),
            bytes: 0,
        };
        let events = vec![
            event(Work::Copy, 0.0, 400.0),
            event(Work::Copy, 100.0, 500.0),
            event(Work::Copy, 400.0, 800.0),
            event(Work::Vector, 0.0, 10.0),
            event(Work::Vector, 10.0, 20.0),
        ];
        let figures = Figures { cycles: 900.0, ..Figures::default() };
        let timeline = Timeline { events, figures, rates: TPU_CHIPS[0].rates };
        let layout = Layout::new(&timeline, 100);
        assert_eq!(layout.rows, ["MXU", "VPU, scalar", "waiting", "DMA 1", "DMA 2"]);
        let bars: Vec<_> = layout.bars.iter().map(|bar| (bar.row, bar.start, bar.end)).collect();
        assert_eq!(bars, [(3, 0.0, 400.0), (4, 100.0, 500.0), (3, 400.0, 800.0), (1, 0.0, 20.0)]);
        assert_eq!(
            layout.ticks().collect::<Vec<_>>(),
            [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0]
        );
        assert_eq!((layout.end, layout.run_end), (800.0, 900.0));
    }
}
