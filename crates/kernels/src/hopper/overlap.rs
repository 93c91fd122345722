//! Stages that overlap: the products of one are on their way while those of the one before are added to the sums. That keeps the tensor cores
//! busy where too little else would.

use octile_core::plan::hopper::STAGE_K;

use super::{
    consumer::{Consumer, release},
    ptx::{B32, Ptx},
    scales::{Reader, StageScales},
    schedule::{Tile, Unit},
    sums::{Chain, Products, Promotion},
};

/// A stage whose products are on their way.
struct Flight {
    products: Products,
    scales: StageScales,
    /// Where in the ring it is.
    stage: B32,
}

impl Consumer<'_> {
    /// Multiplies all stages of a unit.
    pub(super) fn overlapped_stages(&self, ptx: &mut Ptx, unit: Unit, k_block: B32) -> Tile {
        let plan = self.frame.plan;
        assert!(plan.waves() == 1 && plan.promote_every == STAGE_K && plan.stages > 1, "{plan:?}");
        let flights = [0, 1].map(|at| Flight {
            products: Products::of_stage(at),
            scales: StageScales::variables(ptx, plan),
            stage: ptx.variable(0),
        });
        self.start(ptx, &flights[0], k_block);
        // The first products hide this.
        let tile = self.go_to(ptx, unit);
        self.sums.clear(ptx);
        self.until_end(ptx, &flights, k_block);
        tile
    }

    /// With the first stage on its way, starts the others and adds up all of them.
    fn until_end(&self, ptx: &mut Ptx, flights: &[Flight; 2], k_block: B32) {
        let (again, over) = (ptx.label(), ptx.label());
        let last = [ptx.label(), ptx.label()];
        ptx.place(again);
        for at in 0..2 {
            ptx.increase(k_block, 1);
            let is_last = ptx.ge(k_block, self.stages.end);
            ptx.jump_if(is_last, last[at]);
            self.start(ptx, &flights[1 - at], k_block);
            ptx.wgmma_wait(1);
            self.add_up(ptx, &flights[at]);
        }
        ptx.jump(again);
        for (flight, last) in flights.iter().zip(last) {
            ptx.place(last);
            ptx.wgmma_wait(0);
            self.add_up(ptx, flight);
            ptx.jump(over);
        }
        ptx.place(over);
    }

    /// Starts the products of the stage at the cursor and goes to the next.
    fn start(&self, ptx: &mut Ptx, flight: &Flight, k_block: B32) {
        let Self { frame, operands, cursor, .. } = self;
        self.wait_for_stage(ptx);
        let scales = Reader::Ring.read(ptx, frame, self.place, cursor.stage, k_block);
        flight.scales.set(ptx, &scales);
        self.sums.start(ptx, frame, operands, cursor.stage, flight.products, Chain::STAGE);
        ptx.set(flight.stage, cursor.stage);
        self.next_stage(ptx);
    }

    /// Adds finished products to the sums and hands their stage back.
    fn add_up(&self, ptx: &mut Ptx, flight: &Flight) {
        let swapped = self.frame.plan.shape.swapped;
        if !swapped {
            release(ptx, self.frame, flight.stage);
        }
        self.sums.promote(ptx, &flight.scales, &self.boundary, None, flight.products, Promotion::Add);
        // Swapped products still read their scales from the ring.
        if swapped {
            release(ptx, self.frame, flight.stage);
        }
    }
}
