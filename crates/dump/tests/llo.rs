//! Listings of real compiles: parsed without complaint, and their cycles as an independent simulator counted
//! them.

mod common;

use std::{fs, path::Path};

use common::{FINAL, PACKED, cases, load, try_load};
use octile_dump::llo::{DmaModel, Label, Listing, SimError, SimOptions, simulate, static_use};

#[test]
fn real_listings_are_read_without_damage() {
    for case in cases() {
        for file in [PACKED, FINAL] {
            let text = load(&case, file);
            let listing = Listing::parse(&text);
            assert_eq!(listing.damage(), [], "{case} {file}");
            assert!(listing.bundles().len() > 200, "{case} {file}");
            let labels = listing.bundles().iter().filter(|b| b.label == Some(Label::LoopBody));
            assert!(labels.count() > 0, "{case} {file} has a loop");
        }
    }
}

#[test]
fn cycles_are_what_the_reference_simulator_counts() {
    let expected = common::expectations("cycles.json");
    for case in cases() {
        let text = load(&case, PACKED);
        let listing = Listing::parse(&text);
        let cycles = simulate(&listing, &SimOptions::default()).unwrap();
        let expected = &expected[&case];
        assert_eq!(cycles.issued, expected["issued"].as_u64().unwrap(), "{case}");
        assert_eq!(cycles.waits, expected["waits"].as_u64().unwrap(), "{case}");
        assert_eq!(cycles.unresolved_dma, 0, "{case}");
        assert_eq!(cycles.dma.len(), expected["dma"].as_object().unwrap().len(), "{case}");
        for dma in &cycles.dma {
            let counts = [dma.starts, dma.bytes].map(serde_json::Value::from);
            assert_eq!(expected["dma"][&dma.kind].as_array().unwrap()[..], counts, "{case} {}", dma.kind);
        }
        let dma = DmaModel { bytes_per_cycle: 1600.0, latency_cycles: 1000.0 };
        let modelled = simulate(&listing, &SimOptions { dma: Some(dma), ..SimOptions::default() }).unwrap();
        // Recorded with this crate, to whole cycles: the reference lets a wait pass on what an earlier wait
        // has already subtracted, and so loses the latency of most stores.
        let stalled = expected["stalled"].as_f64().unwrap();
        assert!((modelled.stalled - stalled).abs() <= 0.51, "{case}: {} {stalled}", modelled.stalled);
        if let Some(units) = expected["units"].as_array() {
            let units: Vec<_> = units.iter().map(|u| u.as_u64().unwrap()).collect();
            assert_eq!(cycles.units.columns()[..], units[..], "{case}");
        }
    }
}

/// The compiler prints what each bundle uses; what this crate reads off the operations is the same.
#[test]
fn unit_use_is_what_the_compiler_says() {
    for case in cases() {
        let text = load(&case, FINAL);
        let listing = Listing::parse(&text);
        let table = load(&case, "final_hlo-static-per-bundle-utilization.txt");
        let rows: Vec<Vec<u64>> = table
            .lines()
            .skip(4)
            .map(|line| line.split_whitespace().map(|n| n.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.len(), listing.bundles().len(), "{case}");
        for (bundle, row) in listing.bundles().iter().zip(&rows) {
            let mut used = static_use(&listing, bundle);
            // A multiplication is busy in the bundles after its own, which the table spreads out.
            used.mxu = row[0];
            assert_eq!(used.columns()[..], row[..], "{case} bundle {:#x}", bundle.address);
        }
    }
}

#[test]
fn every_semaphore_of_a_correct_kernel_is_balanced() {
    for case in cases() {
        let text = load(&case, PACKED);
        let cycles = simulate(&Listing::parse(&text), &SimOptions::default()).unwrap();
        assert!(!cycles.semaphores.is_empty(), "{case}");
        assert!(cycles.semaphores.iter().all(|s| s.is_balanced()), "{case}: {:?}", cycles.semaphores);
    }
}

#[test]
fn a_wait_that_is_missing_shows_on_its_semaphore() {
    let text = load("512-qb128-aligned-v2-tpu7x", PACKED);
    let without = text.replacen("%1182 = vsyncadd %s1849_s25, 4294966784  ;;", "", 1);
    assert_ne!(text, without);
    let cycles = simulate(&Listing::parse(&without), &SimOptions::default()).unwrap();
    let unbalanced: Vec<_> = cycles.semaphores.iter().filter(|s| !s.is_balanced()).collect();
    assert_eq!(unbalanced.len(), 2, "one per buffer");
    assert!(unbalanced.iter().all(|s| s.left == 32 * 512), "{unbalanced:?}");
}

#[test]
fn loops_and_matrix_units() {
    let text = load("2048-qb512-strip-tpu7x", PACKED);
    let cycles = simulate(&Listing::parse(&text), &SimOptions::default()).unwrap();
    assert_eq!(cycles.loops.len(), 1);
    assert_eq!(cycles.loops[0].iterations, 6);
    // The limit for 2048^3 is 16384 cycles on two units.
    assert_eq!(cycles.units.mxu, 2 * 16384);
    assert!((cycles.mxu_share() - 0.829).abs() < 0.001);
    assert!(cycles.units.spill > 10_000);
}

#[test]
fn half_a_listing_is_not_counted() {
    let text = load("512-qb128-aligned-v2-tpu7x", PACKED);
    for cut in [text.len() / 2, text[..text.len() / 2].rfind('\n').unwrap() + 1] {
        let listing = Listing::parse(&text[..cut]);
        assert!(!listing.damage().is_empty());
        let error = simulate(&listing, &SimOptions::default()).unwrap_err();
        assert!(matches!(error, SimError::Damaged(_)), "{error}");
    }
    let (head, tail) = text.split_at(text.find("\n  0x30").unwrap());
    let gap = format!("{head}{}", &tail[tail.find("\n  0x40").unwrap()..]);
    assert_eq!(
        Listing::parse(&gap).damage()[0].what,
        "bundle 0x40 follows where 0x30 is expected: bundles are missing"
    );
}

#[test]
fn what_is_no_listing_says_so() {
    let error = |text: &str| simulate(&Listing::parse(text), &SimOptions::default()).unwrap_err();
    assert_eq!(error(""), SimError::NoBundles);
    assert_eq!(error("HloModule jit_f\n\nENTRY %main {\n}\n"), SimError::NoBundles);
    let foreign = Listing::parse("HloModule jit_f\nENTRY %main {\n");
    assert_eq!(foreign.damage()[0].to_string(), "1:1: this is no line of an LLO listing");
    let final_bundles = load("512-qb128-aligned-v2-tpu7x", FINAL);
    assert_eq!(error(&final_bundles), SimError::Untimed);
}

#[test]
fn the_allocation_table_is_read() {
    let text = load("512-qb128-aligned-v2-tpu7x", "post-ra.txt");
    let listing = Listing::parse(&text);
    let buffers: Vec<_> = listing.allocations().iter().filter(|a| a.tag == "scratch operand").collect();
    assert_eq!(buffers.len(), 7);
    assert_eq!(buffers[0].shape, "f8e4m3fn[2,128,128]{2,1,0:T(32,128)(4,1)}");
    assert_eq!((buffers[0].space.as_str(), buffers[0].size), ("vmem", 0x8000));
    assert_eq!(buffers[0].place.line, 5);
}

/// A loop of four iterations, whose branch has `delay` slots; another region ends in the first of them.
fn small_loop(delay: usize) -> String {
    let mut text = String::from(
        "     0   :  { %s1_s0 = smov 0 } /* Start region 0 :: Start region 1 */\n\
         \x20  0x1 LB: > { %s2_s0 = sphi %s1_s0, %s3_s0 } /* Start region 2 :: Start region 3 */\n\
         \x20  0x2   : > { %s3_s0 = sadd.s32 1, %s2_s0 }\n\
         \x20  0x3   : > { %p4_p0 = scmp.ge.s32.totalorder %s3_s0, 4 /* loop exit test */ }\n\
         \x20  0x4   :  { %5 = sbr.rel (!%p4_p0) target bundleno = 1 (0x1), region = 2 }\n",
    );
    for slot in 1..=delay {
        let trailer = match slot {
            _ if slot == delay => " /* End region 2 */",
            1 => " /* End region 3 */",
            _ => "",
        };
        text += &format!("   {:#x}   :  {{}}{trailer}\n", 4 + slot);
    }
    text + &format!("   {:#x}   :  {{ %9 = sfence }} /* End region 1 :: End region 0 */\n", 5 + delay)
}

#[test]
fn delay_slots_are_read_off_the_listing() {
    for delay in [4, 6] {
        let text = small_loop(delay);
        let listing = Listing::parse(&text);
        assert_eq!(listing.damage(), []);
        let cycles = simulate(&listing, &SimOptions::default()).unwrap();
        assert_eq!(cycles.branch_delay as usize, delay);
        assert_eq!(cycles.loops[0].iterations, 4);
        // The entry, four times round the loop with its delay slots, the exit.
        assert_eq!(cycles.issued as usize, 1 + 4 * (4 + delay) + 1);
    }
}

#[test]
fn a_branch_on_a_spilled_scalar_says_so() {
    let error = |text: &str| simulate(&Listing::parse(text), &SimOptions::default()).unwrap_err();
    let text = small_loop(4).replace("sadd.s32 1, %s2_s0", "sld [smem:[%s2_s0]]");
    assert_eq!(error(&text), SimError::UnknownBranch { bundle: 4 });
    // DMAs take the address of a slot in HBM.
    let text = text.replace("%s1_s0 = smov 0 }", "%s1_s0 = smov 0  ;;  %s6_s1 = smov [#allocation5_spill] }");
    assert_eq!(error(&text), SimError::SpilledBranch { bundle: 4 });
}

#[test]
fn no_recorded_listing_has_a_race() {
    let folders =
        ["corpus", "fresh"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder));
    let mut checked = 0;
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let case = entry.unwrap().path();
        let Some(text) = try_load(case.to_str().unwrap(), PACKED) else { continue };
        let listing = Listing::parse(&text);
        for core in 0..1 + u32::from(listing.asks_for_core()) {
            let cycles = simulate(&listing, &SimOptions { core, ..SimOptions::default() }).unwrap();
            for route in &cycles.routes {
                assert_eq!(route.race, None, "{}: {route:?}", case.display());
            }
            assert_eq!(cycles.unresolved_accesses, 0, "{}", case.display());
            checked += cycles.routes.len();
        }
    }
    assert!(checked > 60, "{checked} routes");
}

/// A DMA of 4 tiles of every 16: 4 rows of 512 bytes, twice in a tile.
#[test]
fn a_dma_of_no_granules_is_no_copy() {
    let dma = |at: usize, granules: usize| {
        format!(
            "0x{at:x}   :  {{ %2{at} = dma.general /*src=*/%s2_s2, /*size_in_granules=*/{granules}, \
             /*dst=*/[#allocation1], /*dst_syncflagno=*/[#allocation8], /*src_syncflagno=*/[#allocation9], \
             /*stridedescaddr=*/[#allocation21], /*overrides=*/%s1_s0 /* vmem-to-hbm */ }}\n"
        )
    };
    let text = "0   :  { %s1_s0 = smov 0 } /* Start region 0 */\n\
                0x1   :  { %s2_s2 = sshll.u32 [#allocation2], 4 }\n"
        .to_owned()
        + &dma(2, 0)
        + &dma(3, 1024)
        + "0x4   :  { %23 = dma.done.wait [#allocation8], 1024 }\n\
           0x5   :  { %24 = vsyncadd [#allocation8], 4294966272 } /* End region 0 */\n";
    let listing = Listing::parse(&text);
    assert_eq!(listing.damage(), [], "{text}");
    let cycles = simulate(&listing, &SimOptions::default()).unwrap();
    assert_eq!(cycles.routes.iter().map(|route| route.starts).sum::<u64>(), 1);
}

#[test]
fn a_stride_descriptor_tells_which_rows_a_dma_reads() {
    let run_words = |words: &[i64], row: i64| {
        let mut text = String::from("0   :  { %s1_s0 = smov 0 } /* Start region 0 */\n");
        for at in 0..9 {
            // Other words go to another buffer.
            let (buffer, word) = words.get(at).map_or((22, &0), |word| (21, word));
            let (bundle, register) = (2 * at + 1, at + 2);
            text += &format!("0x{bundle:x}   :  {{ %s{register}_s1 = smov {word} }}\n");
            let stored = format!("%9 = sst [smem:[#allocation{buffer} + $0x{at:x}]] %s{register}_s1");
            text += &format!("0x{:x}   :  {{ {stored} }}\n", bundle + 1);
        }
        text += &format!(
            "0x13   :  {{ %s19_s2 = sshll.u32 [#allocation2], 4 }}\n\
             0x14   :  {{ %s20_s2 = int_to_ptr.vmem [resolvable:$true] %s19_s2 }}\n\
             0x15   :  {{ %21 = dma.general /*src=*/%s20_s2, /*size_in_granules=*/1024, \
             /*dst=*/[#allocation1], /*dst_syncflagno=*/[#allocation8], /*src_syncflagno=*/[#allocation9], \
             /*stridedescaddr=*/[#allocation21], /*overrides=*/%s1_s0 /* vmem-to-hbm */ }}\n\
             0x16   :  {{ %22 = vst [vmem:[#allocation2 + $0x{row:x}] sm:$0xff] /*vst_source=*/%v1_v0 }}\n\
             0x17   :  {{ %23 = dma.done.wait [#allocation8], 1024 }}\n\
             0x18   :  {{ %24 = vsyncadd [#allocation8], 4294966272 }} /* End region 0 */\n"
        );
        let listing = Listing::parse(&text);
        assert_eq!(listing.damage(), [], "{text}");
        let cycles = simulate(&listing, &SimOptions::default()).unwrap();
        (cycles.routes[0].race.is_some(), cycles.unresolved_accesses > 0)
    };
    let run = |tile_stride, row| run_words(&[2048, 2048, 4, tile_stride, 64, 2, 64, 1024, 4], row);
    let rows = [0, 0x18, 0x20, 0x78, 0x80, 0x98, 0xa0].map(|row| run(128, row));
    let (is_read, is_free) = ((true, false), (false, false));
    assert_eq!(rows, [is_read, is_read, is_free, is_free, is_read, is_read, is_free]);
    // Gaps of two sizes are not followed.
    assert_eq!(run(256, 0x20), (false, true));
    // One tile of every 17, in two levels: nothing is stored for the third one.
    let rows = [0, 7, 8, 0x80, 0x81, 0x8f, 0x90].map(|row| run_words(&[2176, 2176, 2, 64, 1088, 4], row));
    assert_eq!(rows, [is_read, is_read, is_free, is_free, is_read, is_read, is_free]);
    // Half a level.
    assert_eq!(run_words(&[2176, 2176, 2, 64, 1088, 4, 64], 8), (false, true));
}
