//! `octile report`: the content of the page, and its layout in a real browser.

#[path = "common/corpus.rs"]
mod corpus;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use corpus::{octile, outcome, unpack};
use octile_harness::requirement::Requirement;
use tempfile::TempDir;

const CASES: [&str; 2] = ["512-qb128-aligned-v2-operands-prefetched-tpu7x", "512-qb128-aligned-v3-tpu7x"];

/// The page about two recorded versions, one of which fails.
fn page(place: &Path) -> String {
    for case in CASES {
        unpack(case, &place.join("dumps"));
    }
    let hostile = place.join("dumps").join(CASES[0]);
    let mosaic = fs::read_to_string(hostile.join("mosaic.mlir")).unwrap();
    let damaged = mosaic.replacen('\n', "\n<script>alert(1)</script>\n", 1);
    fs::write(hostile.join("mosaic.mlir"), damaged).unwrap();
    fs::write(hostile.join("<script>alert(2)<b>.txt"), "").unwrap();
    let (code, said) = outcome(&["report", "dumps", "-o", "report.html"], place);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("mosaic.mlir is damaged") && said.contains("<b>.txt is empty"), "{said}");
    let page = fs::read_to_string(place.join("report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("&lt;script&gt;alert(2)"));
    page
}

/// The values of an attribute.
fn values<'a>(page: &'a str, attribute: &str) -> BTreeSet<&'a str> {
    let opening = format!(" {attribute}=\"");
    page.split(&opening).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_page_is_self_contained() {
    let place = TempDir::new().unwrap();
    let page = page(place.path());
    for foreign in ["http:", "https:", "//cdn", "<script", "<link", "<img", "<iframe", "@import", "url("] {
        assert!(!page.contains(foreign), "the page contains {foreign}");
    }
    for part in ["Versions side by side", "Roofline plot", "Units in use over bundles", "Memory, to scale"] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(page.contains("<nav>") && page.contains("limit of HBM"));
    assert!(
        page.contains("1 of 2 versions fails: 512-qb128-aligned-v2-operands-prefetched-tpu7x (files"),
        "{page}"
    );
    assert!(page.contains("<details>") && page.contains("Copies of the first scale "));
    assert!(page.contains("mosaic.mlir, ") && page.contains("packed-bundles-post-ra.txt, "));
}

#[test]
fn every_link_leads_to_a_line_of_the_page() {
    let place = TempDir::new().unwrap();
    let page = page(place.path());
    let ids = values(&page, "id");
    let links = values(&page, "href");
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let target = link.strip_prefix('#').unwrap_or_else(|| panic!("{link} leads elsewhere"));
        assert!(ids.contains(target), "nothing is at {link}");
    }
}

/// Names alone would be ambiguous.
#[test]
fn versions_of_the_same_name_are_called_by_their_paths() {
    let place = TempDir::new().unwrap();
    for (folder, case) in ["before", "after"].into_iter().zip(CASES) {
        let parent = place.path().join(folder);
        fs::rename(unpack(case, &parent), parent.join("v3")).unwrap();
    }
    unpack(CASES[1], &place.path().join("after"));
    let (code, said) =
        outcome(&["verify", "before", "after", "--chip", "tpu7x", "--junit", "v.xml"], place.path());
    assert_eq!(code, 1, "{said}");
    let lines = ["FAIL  before/v3\n", "PASS  after/v3\n", "FAIL: 1 of 3 versions fails\n"];
    for line in lines.map(str::to_owned).into_iter().chain([format!("PASS  {}\n", CASES[1])]) {
        assert!(said.contains(&line), "{line} is not in {said}");
    }
    let suites = fs::read_to_string(place.path().join("v.xml")).unwrap();
    for name in ["before/v3", "after/v3"] {
        assert!(suites.contains(&format!("<testsuite name=\"{name}\"")), "{suites}");
    }
    let (code, said) = outcome(&["report", "before", "after", "-o", "page.html"], place.path());
    assert_eq!(code, 0, "{said}");
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("<h2>before/v3 <") && page.contains("<h2>after/v3 <"));
    assert!(page.contains(" to after/v3: "));
}

#[test]
fn damaged_files_are_named_and_the_page_is_written() {
    let place = TempDir::new().unwrap();
    let damaged = unpack(CASES[1], &place.path().join("dumps"));
    fs::write(damaged.join("mosaic.mlir"), "").unwrap();
    fs::create_dir(place.path().join("foreign")).unwrap();
    fs::write(place.path().join("foreign/notes.txt"), "what I did on Monday\n").unwrap();
    for (folder, name) in [("dumps", CASES[1]), ("foreign", "foreign")] {
        let output = octile(&["report", folder, "-o", "page.html"], place.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("WARNING {name}: ")), "{said}");
        let page = fs::read_to_string(place.path().join("page.html")).unwrap();
        assert!(page.contains("FAIL") && page.contains("class=\"trouble\""), "{page}");
        fs::remove_file(place.path().join("page.html")).unwrap();
    }
}

/// Chromium, if this machine has one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// Measures the page from inside a frame, and sends the result to the page around it.
const PROBE: &str = "<script>addEventListener('load', () => setTimeout(() => {
    document.querySelectorAll('details').forEach(e => e.open = true);
    if (location.hash) { const h = location.hash; location.hash = ''; location.hash = h; }
    const d = document.documentElement, all = s => [...document.querySelectorAll(s)], box = e => e.getBoundingClientRect();
    const [left, right] = all('.panes')[0].children;
    const mark = document.querySelector('mark:target'), pane = mark && box(mark.closest('.code')), at = mark && box(mark);
    const size = e => parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM ? e.getScreenCTM().a : 1);
    parent.postMessage([
        'fits=' + (d.scrollWidth <= d.clientWidth),
        'drawn=' + all('svg').every(s => box(s).height > 10 && box(s).width > 100),
        'letters=' + (Math.min(...all('svg text, .units span, td, th, li').map(size)) >= 9.5),
        'beside=' + (Math.abs(box(left).top - box(right).top) < 1),
        'marked=' + !!mark,
        'seen=' + (!!mark && at.top >= 0 && at.bottom <= innerHeight && at.top >= pane.top && at.bottom <= pane.bottom
            && at.left >= pane.left && at.right <= pane.right),
    ].join(' '), '*'); }, 300))</script>";

/// Measures the page at a width. Windows are at least 500 pixels wide, so it is loaded in a frame.
fn look(browser: &Path, place: &Path, width: u32, anchor: &str) -> String {
    let frame = format!(
        "<body style='margin:0'><iframe src='probe.html#{anchor}' style='border:0;width:{width}px;height:900px'></iframe>\
         <script>onmessage = m => document.title = m.data</script></body>"
    );
    let file = place.join("frame.html");
    fs::write(&file, frame).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
    command.args(["--dump-dom", "--virtual-time-budget=8000", "--window-size=1400,900"]);
    command.arg(format!("--user-data-dir={}", place.join("profile").display()));
    let output = command.arg(format!("file://{}", file.display())).output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.unwrap_or_else(|| panic!("the page said nothing: {output:?}")).to_owned()
}

/// On a phone, a tablet and a desktop, nothing overflows, text is legible, and a link leads to a marked,
/// visible line.
#[test]
fn a_browser_lays_the_page_out() {
    let Some(browser) = browser() else {
        Requirement::Browser.report_absent("a_browser_lays_the_page_out", "no chromium on PATH");
        return;
    };
    let place = TempDir::new().unwrap();
    let page = page(place.path());
    let mut places = values(&page, "href").into_iter().filter(|link| link.contains("-txt-"));
    // The last place is deep in its file.
    let anchor = places.next_back().expect("a link to a line").trim_start_matches('#');
    fs::write(place.path().join("probe.html"), page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    for (width, beside) in [(390, false), (768, true), (1300, true)] {
        let seen = look(&browser, place.path(), width, anchor);
        let wanted = format!("fits=true drawn=true letters=true beside={beside} marked=true seen=true");
        assert_eq!(seen, wanted, "{width} pixels, {anchor}");
    }
}
