//! The page of `show --html`, opened in a real browser and used as a reader does.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::browser::Browser;
use crate::support::command;

const MS: u64 = 1_000_000;
/// 1 Dec 2026, 06:30:00 UTC, and some nanoseconds.
const START: u64 = 1_796_106_600_000_000_321;

/// A span as OTLP JSON has it; a parent 0 is none, an end of 0 ms is none either.
fn span(id: u64, parent: u64, name: &str, from_ms: u64, to_ms: u64) -> Value {
    let end = if to_ms == 0 { 0 } else { START + to_ms * MS };
    let parent = if parent == 0 { String::new() } else { format!("{parent:016x}") };
    json!({
        "traceId": "1459932a52cac21e3ad6396c543dc573", "spanId": format!("{id:016x}"),
        "parentSpanId": parent, "name": name, "kind": 1, "attributes": [], "status": {},
        "startTimeUnixNano": (START + from_ms * MS).to_string(),
        "endTimeUnixNano": end.to_string(),
    })
}

trait SpanExt {
    fn with(self, key: &str, value: &str) -> Self;
    fn pid(self, pid: u32) -> Self;
    fn failed(self, why: &str) -> Self;
}
impl SpanExt for Value {
    fn with(mut self, key: &str, value: &str) -> Self {
        let attribute = json!({"key": key, "value": {"stringValue": value}});
        self["attributes"].as_array_mut().unwrap().push(attribute);
        self
    }

    fn pid(mut self, pid: u32) -> Self {
        let attribute = json!({"key": "process.pid", "value": {"intValue": pid.to_string()}});
        self["attributes"].as_array_mut().unwrap().push(attribute);
        self
    }

    fn failed(mut self, why: &str) -> Self {
        self["status"] = json!({"code": 2, "message": why});
        self
    }
}

const SERVER: &str = "nemo.gym.server.name";
const OUTCOME: &str = "nemo.gym.startup.outcome";

/// Three servers, one with workers, one that fails, and one that has not ended.
fn startup() -> Vec<Value> {
    let server = |id, name: &str, to_ms| {
        span(id, 1, "gym.startup.server", 12, to_ms).with(SERVER, name).with("zone", "a")
    };
    let failed = "exited with status 3 before it was ready\nModuleNotFoundError: no module 'torch'";
    vec![
        span(1, 0, "gym.startup", 0, 12_400).with(OUTCOME, "failed").failed("judge failed"),
        span(2, 1, "gym.startup.load_config", 0, 3),
        span(3, 1, "gym.startup.spawn_servers", 3, 15),
        span(4, 1, "gym.startup.wait_for_servers", 15, 12_400),
        server(5, "reward", 12_390).with(OUTCOME, "ready"),
        span(6, 5, "gym.startup.server.venv_setup", 12, 9_100),
        span(7, 6, "uv venv", 40, 310),
        span(8, 6, "uv pip install", 330, 9_020),
        span(9, 5, "gym.startup.server.server_start", 9_100, 12_390),
        server(10, "policy_model", 4_250).with(OUTCOME, "ready"),
        span(11, 10, "gym.startup.server.venv_setup", 12, 1_050),
        span(12, 10, "gym.startup.server.server_start", 1_050, 4_250),
        span(13, 10, "gym.server.startup", 12, 3_900).pid(4711),
        span(14, 13, "gym.server.startup.init_server", 1_090, 3_900),
        span(15, 10, "gym.server.startup.worker", 3_900, 4_200).pid(4712),
        span(16, 15, "gym.server.startup.worker.worker_start", 3_900, 4_200),
        server(17, "judge", 2_700).with(OUTCOME, "failed").failed(failed),
        span(18, 17, "gym.startup.server.venv_setup", 12, 2_400),
        span(19, 17, "load weights", 2_400, 0),
        span(20, 17, "no time at all", 2_500, 2_500),
    ]
}

/// 99 servers with 100 stages each, and what is above them.
fn ten_thousand() -> Vec<Value> {
    let mut spans = vec![span(1, 0, "gym.startup", 0, 60_000)];
    for server in 0..99 {
        let id = 10 + server * 1_000;
        let name = format!("server_{server}");
        let all = span(id, 1, "gym.startup.server", server, 30_000 + server * 300);
        spans.push(all.with(SERVER, &name));
        for stage in 1..=100 {
            let from = server + stage * 290;
            let of = format!("server_{server}");
            let name = format!("gym.startup.server.stage_{stage}_of_{server}");
            spans.push(span(id + stage, id, &name, from, from + 280).with(SERVER, &of));
        }
    }
    spans
}

/// The page of a startup, opened.
struct Page {
    browser: Browser,
    file: PathBuf,
    _folder: TempDir,
}

impl Page {
    fn of(spans: &[Value]) -> Self {
        Self::sized(&[spans], 1280, 800)
    }

    /// A file for each startup.
    fn sized(startups: &[&[Value]], width: u32, height: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("gym-startup-page").tempdir().unwrap();
        let out = folder.path().join("page.html");
        let mut run = command(env!("CARGO_BIN_EXE_gym-startup"));
        run = run.args(["show", "--html"]).arg(&out);
        for (number, spans) in startups.iter().enumerate() {
            let host = json!([{"key": "host.name", "value": {"stringValue": "node-1"}}]);
            let line = json!({"resourceSpans": [
                {"resource": {"attributes": host}, "scopeSpans": [{"scope": {}, "spans": spans}]}
            ]});
            let file = folder.path().join(format!("{number}.jsonl"));
            fs::write(&file, format!("{line}\n")).unwrap();
            run = run.arg(file);
        }
        run.run().exits(0);
        let browser = Browser::open(&out, width, height);
        Self { browser, file: out, _folder: folder }
    }

    /// What the rows in the document say: label and outcome, duration, share.
    fn rows(&mut self) -> Vec<String> {
        let said = "[...document.querySelectorAll('.row')].map(row =>
            [...row.children].slice(0, 3).map(it => it.textContent).join(' | '))";
        serde_json::from_value(self.browser.eval(said)).unwrap()
    }

    /// What has the focus: the label of a row, or else its text, or its tag.
    fn focused(&mut self) -> String {
        self.browser.text(
            "(it => (it.querySelector('.label') ?? it).textContent || it.localName)
            (document.activeElement)",
        )
    }

    fn attribute(&mut self, name: &str) -> Value {
        self.browser.eval(&format!("document.activeElement.getAttribute('{name}')"))
    }

    /// What stands at the axis of the first startup.
    fn axis(&mut self) -> String {
        self.browser.text(
            "[...document.querySelector('.axis').children].map(it => it.textContent).join(', ')",
        )
    }

    fn press(&mut self, keys: &[&str]) -> String {
        keys.iter().for_each(|key| self.browser.press(key));
        self.focused()
    }

    fn click(&mut self, selector: &str) {
        self.browser.eval(&format!("document.querySelector('{selector}').click()"));
        self.browser.settle();
    }

    /// Nothing went wrong, and nothing was asked for but the page.
    fn was_quiet(self) {
        for method in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
            assert_eq!(self.browser.events(method), Vec::<&Value>::new());
        }
        let requests = self.browser.events("Network.requestWillBeSent");
        let page = format!("file://{}", self.file.display());
        let urls: Vec<_> = requests.iter().map(|it| it["request"]["url"].as_str()).collect();
        assert!(urls.iter().all(|url| *url == Some(&page)) && !urls.is_empty(), "{urls:?}");
    }
}

#[test]
fn all_of_a_startup_is_on_the_page() {
    let mut page = Page::of(&startup());
    assert_snapshot!(page.rows().join("\n"), @r"
    gym.startup ✗ failed | 12.4 s | 100%
    load_config | 3.00 ms | <1%
    spawn_servers | 12.0 ms | <1%
    reward | 12.4 s | 100%
    venv_setup | 9.09 s | 73%
    uv venv | 270 ms | 2%
    uv pip install | 8.69 s | 70%
    server_start | 3.29 s | 27%
    policy_model | 4.24 s | 34%
    venv_setup | 1.04 s | 8%
    server_start | 3.20 s | 26%
    its own report (pid 4711) | 3.89 s | 31%
    init_server | 2.81 s | 23%
    worker (pid 4712) | 300 ms | 2%
    worker_start | 300 ms | 2%
    judge ✗ failed | 2.69 s | 22%
    venv_setup | 2.39 s | 19%
    load weights not ended | 10.0 s | 81%
    no time at all | 0 s | 0%
    wait_for_servers | 12.4 s | 100%
    ");
    let header = page.browser.text("document.querySelector('section header').innerText");
    assert_snapshot!(header, @r"
    Dec 1, 2026, 6:30:00 AM UTC

    12.4 s
    ✗ failed
    3 servers: reward, policy_model, judge
    20 spans
    2 errors
    trace 1459932a52cac21e3ad6396c543dc573

    the longest path
    beside it
    error
    not ended
    ");
    assert_eq!(page.axis(), "0 s, 2 s, 4 s, 6 s, 8 s, 10 s, 12 s");
    page.was_quiet();
}

#[test]
fn a_row_can_be_folded_and_read_with_the_keyboard_alone() {
    let mut page = Page::of(&startup());
    page.browser.eval("document.querySelector('.keys summary').focus()");
    assert_eq!(page.press(&["Tab"]), "gym.startup");
    assert_eq!(page.attribute("aria-expanded"), "true");
    assert_eq!(page.press(&["ArrowDown"; 3]), "reward");
    assert_eq!(page.attribute("aria-level"), "2");
    let before = page.rows().len();
    assert_eq!(page.press(&["ArrowLeft"]), "reward");
    assert_eq!(page.attribute("aria-expanded"), "false");
    assert_eq!(page.rows().len(), before - 4);
    assert_eq!(page.press(&["ArrowDown"]), "policy_model");
    assert_eq!(page.press(&["ArrowUp", "ArrowRight"]), "reward");
    assert_eq!(page.rows().len(), before);
    assert_eq!(page.press(&["ArrowRight"]), "venv_setup");
    assert_eq!(page.press(&["ArrowRight"]), "uv venv");
    assert_eq!(page.press(&["ArrowRight"]), "uv venv");
    assert_eq!(page.press(&["ArrowLeft"]), "venv_setup");
    assert_eq!(page.press(&["End"]), "wait_for_servers");
    assert_eq!(page.press(&["Home"]), "gym.startup");
    assert_eq!(page.press(&["PageDown"]), "wait_for_servers");
    // One stop for Tab, whichever row it is.
    let stops = "document.querySelectorAll('.row[tabindex=\"0\"]').length";
    assert_eq!(page.browser.eval(stops), 1);
    page.was_quiet();
}

#[test]
fn enter_tells_all_about_a_span() {
    let mut page = Page::of(&startup());
    page.browser.eval("document.querySelector('.row').focus()");
    page.press(&["ArrowDown"; 15]);
    assert_eq!(page.press(&["Enter"]), "judge");
    assert_eq!(page.attribute("id"), "about");
    let facts = page.browser.text("document.querySelector('.facts').innerText");
    assert_snapshot!(facts, @r"
    Span
    gym.startup.server
    Start
    0.012000 s · 06:30:00.012 AM · 1796106600012000321 ns
    End
    2.700000 s · 06:30:02.700 AM · 1796106602700000321 ns
    Duration
    2.69 s, 22% of the startup
    Outcome
    failed
    Error
    exited with status 3 before it was ready
    ModuleNotFoundError: no module 'torch'
    Server
    judge
    Node
    node-1
    Attributes
    nemo.gym.server.name
    judge
    zone
    a
    nemo.gym.startup.outcome
    failed
    ");
    assert_eq!(page.press(&["Escape"]), "judge");
    assert_eq!(page.attribute("role"), "row");
    assert_eq!(page.browser.eval("document.querySelector('.about').hidden"), true);
    page.was_quiet();
}

#[test]
fn a_tooltip_comes_with_the_pointer_and_with_the_focus() {
    let mut page = Page::of(&startup());
    let tooltip = "(it => it.hidden ? '' : it.innerText)(document.querySelector('#tooltip'))";
    assert_eq!(page.browser.text(tooltip), "");
    let place = "(it => [it.x + it.width / 2, it.y + 5])
        (document.querySelectorAll('.row')[3].getBoundingClientRect())";
    let place = page.browser.eval(place);
    let moved = json!({"type": "mouseMoved", "x": place[0], "y": place[1]});
    page.browser.call("Input.dispatchMouseEvent", moved);
    page.browser.settle();
    let said = page.browser.text(tooltip);
    assert!(said.starts_with("reward\n12.4 s, 100%, on the longest path\n0.012000 s – 12.3"));
    page.press(&["Escape"]);
    assert_eq!(page.browser.text(tooltip), "");
    page.browser.eval("document.querySelector('.keys summary').focus()");
    page.press(&["Tab"]);
    assert!(page.browser.text(tooltip).starts_with("gym.startup\n"), "{said}");
    assert_eq!(page.attribute("aria-describedby"), "tooltip");
    page.was_quiet();
}

#[test]
fn search_reaches_what_is_folded() {
    let mut page = Page::of(&startup());
    page.click(".tools .fold");
    assert_eq!(page.rows().len(), 1);
    page.browser.press("/");
    page.browser.type_in("VENV");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 4: venv_setup, 9.09 s");
    assert_eq!(page.press(&["Enter"]), "input");
    assert_eq!(page.browser.text(found), "2 of 4: uv venv, 270 ms");
    assert!(page.rows().iter().any(|row| row.starts_with("uv venv | ")));
    page.press(&["Enter"]);
    assert_eq!(page.browser.text(found), "3 of 4: venv_setup, 1.04 s");
    page.click(".previous");
    assert_eq!(page.browser.text(found), "2 of 4: uv venv, 270 ms");
    page.click(".next");
    // What had to be unfolded for the one before is folded again.
    assert!(!page.rows().iter().any(|row| row.starts_with("uv venv | ")));
    assert_eq!(page.browser.text("document.querySelector('.found mark').textContent"), "venv");
    assert_eq!(page.press(&["Escape"]), "venv_setup");
    page.browser.press("/");
    page.browser.type_in("no module 'torch'");
    assert_eq!(page.browser.text(found), "1 of 1: judge, 2.69 s");
    page.browser.press("/");
    page.browser.type_in("nowhere");
    assert_eq!(page.browser.text(found), "no span has it");
    page.was_quiet();
}

#[test]
fn names_are_shown_and_do_nothing() {
    let names = [
        "</script><script>document.title = 'taken'</script>",
        "<img src=\"http://127.0.0.1:9/x\" onerror=\"document.title = 'taken'\">",
        "<!--<script>",
        "\"'&amp;{script}{data}\\u003c",
        "right\u{202e}left\u{2028}\u{0}\u{1b}[2J\u{7}",
        "評価サーバー",
        "a very long name ".repeat(40).trim(),
    ]
    .map(str::to_owned);
    let mut spans = vec![span(1, 0, "gym.startup", 0, 1_000)];
    for (id, name) in (2..).zip(&names) {
        let evil = span(id, 1, "gym.startup.server", id, 900).with(SERVER, name);
        spans.push(evil.with(name, name).with(OUTCOME, name).failed(name));
    }
    let mut page = Page::of(&spans);
    let labels = "[...document.querySelectorAll('.label')].map(it => it.textContent)";
    let labels: Vec<String> = serde_json::from_value(page.browser.eval(labels)).unwrap();
    let shown = "right\u{fffd}left\u{2028}\u{fffd}\u{fffd}[2J\u{fffd}";
    let expected = names.map(|it| if it.starts_with("right") { shown.to_owned() } else { it });
    assert_eq!(labels[1..], expected);
    for number in 0..=expected.len() {
        page.browser.eval(&format!("document.querySelectorAll('.row')[{number}].click()"));
        page.browser.settle();
    }
    assert!(page.browser.text("document.title").starts_with("Startup of "));
    let scripts = "document.querySelectorAll('script, img').length";
    assert_eq!(page.browser.eval(scripts), 2);
    page.was_quiet();
}

#[test]
fn were_a_name_markup_the_policy_would_keep_it_from_doing_anything() {
    let mut page = Page::of(&startup());
    let inject = "(() => {
        const script = document.createElement('script');
        script.textContent = 'document.title = \"taken\"';
        const image = document.createElement('img');
        image.src = 'http://127.0.0.1:9/x';
        document.body.append(script, image);
    })()";
    page.browser.eval(inject);
    page.browser.settle();
    assert!(page.browser.text("document.title").starts_with("Startup of "));
    let failed = page.browser.events("Network.loadingFailed");
    let blocked: Vec<_> = failed.iter().map(|it| &it["blockedReason"]).collect();
    assert_eq!(json!(blocked), json!(["csp"]));
}

#[test]
fn ten_thousand_spans_do_not_freeze_it() {
    let mut page = Page::of(&ten_thousand());
    let loaded = page.browser.eval("performance.getEntriesByType('navigation')[0].loadEventEnd");
    let header = page.browser.text("document.querySelector('section header').innerText");
    assert!(header.contains("10,000 spans"), "{header}");
    // At first only what leads to the longest path is unfolded: the servers, and the slowest one.
    let count = "document.querySelector('.grid').getAttribute('aria-rowcount')";
    assert_eq!(page.browser.text(count), "201");
    page.click(".unfold");
    assert_eq!(page.browser.text(count), "10001");
    page.browser.eval("document.querySelector('.row').focus()");
    assert_eq!(page.press(&["End"]), "stage_100_of_98");
    assert_eq!(page.attribute("aria-rowindex"), "10001");
    page.browser.eval("scrollTo(0, document.body.scrollHeight / 2)");
    page.browser.settle();
    assert!(page.rows().iter().any(|row| row.contains("_of_49")), "{:?}", page.rows());
    page.browser.press("/");
    page.browser.type_in("stage_77_of_3");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 11: stage_77_of_3, 280 ms");
    let rows = page.rows();
    assert!(rows.iter().any(|row| row.starts_with("stage_77_of_3 |")), "{rows:?}");
    assert!(rows.len() < 200, "{}", rows.len());
    let tasks = "new Promise(done => new PerformanceObserver(list =>
        done(Math.max(0, ...list.getEntries().map(it => it.duration))))
        .observe({type: 'longtask', buffered: true}) ?? setTimeout(() => done(0), 500))";
    let longest = page.browser.eval(tasks);
    println!("loaded after {loaded} ms, longest task {longest} ms");
    // Far more than it takes: a busy machine, and still not a page that hangs.
    assert!(loaded.as_f64().unwrap() < 20_000.0, "{loaded}");
    assert!(longest.as_f64().unwrap() < 5_000.0, "{longest}");
    page.was_quiet();
}

/// Of all text in sight, what has less contrast than WCAG's AA asks for, and of all bars too.
const PALE: &str = "(() => {
    const rgba = colour => (colour.match(/[\\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => {
        const part = it => (it /= 255) <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const ground = it => {
        for (; it; it = it.parentElement) {
            const colour = rgba(getComputedStyle(it).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
    };
    const contrast = (a, b) => {
        const [low, high] = [light(a), light(b)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const pale = [];
    let seen = 0;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const it = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !it.checkVisibility() || it.closest('script')
            || it.closest(':disabled')) continue;
        seen += 1;
        const is = contrast(rgba(getComputedStyle(it).color), ground(it));
        if (is < 4.5) pale.push(`${is.toFixed(2)} ${it.className} ${it.textContent}`);
    }
    for (const bar of document.querySelectorAll('.bar')) {
        const ink = getComputedStyle(bar).getPropertyValue('--ink').trim();
        const probe = document.createElement('i');
        probe.style.color = ink;
        bar.append(probe);
        const is = contrast(rgba(getComputedStyle(probe).color), ground(bar.parentElement));
        probe.remove();
        if (is < 3) pale.push(`${is.toFixed(2)} bar ${ink}`);
    }
    return seen < 60 ? [`only ${seen} texts`] : pale;
})()";

#[test]
fn it_is_readable_in_light_and_in_dark() {
    let mut page = Page::of(&startup());
    page.browser.press("/");
    page.browser.type_in("venv");
    page.browser.eval("document.querySelector('.failed.row').click()");
    page.browser.eval("document.querySelector('.keys').open = true");
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    for (scheme, expected) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(16, 19, 23)")] {
        prefer(&mut page, scheme);
        assert_eq!(page.browser.text(ground), expected);
        assert_eq!(page.browser.eval(PALE), json!([]), "{scheme}");
    }
    page.was_quiet();
}

fn prefer(page: &mut Page, scheme: &str) {
    let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
    page.browser.call("Emulation.setEmulatedMedia", json!({"features": features}));
    page.browser.settle();
}

#[test]
fn paper_gets_every_row_in_light_colours() {
    let mut page = Page::of(&ten_thousand());
    prefer(&mut page, "dark");
    let watch = "addEventListener('beforeprint', () => {
        printed = [document.querySelectorAll('.row').length, document.querySelector('.cut').textContent,
            matchMedia('print').matches];
    })";
    page.browser.eval("var printed");
    page.browser.eval(watch);
    let shown = page.browser.eval("document.querySelector('.grid').ariaRowCount - 1");
    let pages = print(&mut page, "some");
    assert_eq!(page.browser.eval("printed.slice(0, 2)"), json!([shown, ""]));
    assert!(pages >= 2, "{pages}");
    page.click(".unfold");
    let pages = print(&mut page, "many");
    let cut = "Of 10,000 rows the first 2,000 are printed. \
        To print others, fold what is before them.";
    assert_eq!(page.browser.eval("printed.slice(0, 2)"), json!([2_000, cut]));
    assert!(pages >= 20, "{pages}");
    // Back on the screen there are few again.
    assert!(page.rows().len() < 200);
    let dark = json!([{"name": "prefers-color-scheme", "value": "dark"}]);
    let paper = json!({"media": "print", "features": dark});
    page.browser.call("Emulation.setEmulatedMedia", paper);
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    assert_eq!(page.browser.text(ground), "rgb(255, 255, 255)");
    page.was_quiet();
}

/// Prints to `target/screenshots/print-NAME.pdf`, and counts the pages.
fn print(page: &mut Page, name: &str) -> usize {
    let params = json!({"printBackground": false, "preferCSSPageSize": true});
    let printed = page.browser.call("Page.printToPDF", params);
    let pdf = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
    fs::write(screenshots().join(format!("print-{name}.pdf")), &pdf).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    text.matches("/Type /Page\n").count()
}

fn screenshots() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_screen_reader_finds_a_tree_of_rows() {
    let mut page = Page::of(&startup());
    let tree = page.browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes: Vec<_> = tree["nodes"].as_array().unwrap().iter().collect();
    let of = |role: &str| -> Vec<_> {
        nodes
            .iter()
            .filter(|node| node["role"]["value"] == role && node["ignored"] == false)
            .collect()
    };
    let property = |node: &Value, name: &str| {
        let mut all = node["properties"].as_array().unwrap().iter();
        all.find(|it| it["name"] == name).map(|it| it["value"]["value"].clone())
    };
    let grids = of("treegrid");
    assert_eq!(grids.len(), 1);
    assert_eq!(grids[0]["name"]["value"], "Dec 1, 2026, 6:30:00 AM UTC");
    let rows: Vec<_> = of("row")
        .iter()
        .map(|row| {
            let name = row["name"]["value"].as_str().unwrap().to_owned();
            let level = property(row, "level").map_or(0, |it| it.as_u64().unwrap());
            let expanded = property(row, "expanded").map_or(String::new(), |it| it.to_string());
            format!("{level} {expanded} {name}")
        })
        .collect();
    assert_snapshot!(rows.join("\n"), @r"
    0  Span Duration Share Time since the start
    1 true gym.startup ✗ failed 12.4 s 100% from 0.000000 s to 12.400000 s, on the longest path
    2  load_config 3.00 ms <1% from 0.000000 s to 0.003000 s, on the longest path
    2  spawn_servers 12.0 ms <1% from 0.003000 s to 0.015000 s, on the longest path
    2 true reward 12.4 s 100% from 0.012000 s to 12.390000 s, on the longest path
    3 true venv_setup 9.09 s 73% from 0.012000 s to 9.100000 s, on the longest path
    4  uv venv 270 ms 2% from 0.040000 s to 0.310000 s, on the longest path
    4  uv pip install 8.69 s 70% from 0.330000 s to 9.020000 s, on the longest path
    3  server_start 3.29 s 27% from 9.100000 s to 12.390000 s, on the longest path
    2 true policy_model 4.24 s 34% from 0.012000 s to 4.250000 s
    3  venv_setup 1.04 s 8% from 0.012000 s to 1.050000 s
    3  server_start 3.20 s 26% from 1.050000 s to 4.250000 s
    3 true its own report (pid 4711) 3.89 s 31% from 0.012000 s to 3.900000 s
    4  init_server 2.81 s 23% from 1.090000 s to 3.900000 s
    3 true worker (pid 4712) 300 ms 2% from 3.900000 s to 4.200000 s
    4  worker_start 300 ms 2% from 3.900000 s to 4.200000 s
    2 true judge ✗ failed 2.69 s 22% from 0.012000 s to 2.700000 s
    3  venv_setup 2.39 s 19% from 0.012000 s to 2.400000 s
    3  load weights not ended 10.0 s 81% from 2.400000 s and not ended
    3  no time at all 0 s 0% from 2.500000 s to 2.500000 s
    2  wait_for_servers 12.4 s 100% from 0.015000 s to 12.400000 s
    ");
    let headers: Vec<_> = of("columnheader").iter().map(|it| &it["name"]["value"]).collect();
    assert_eq!(json!(headers), json!(["Span", "Duration", "Share", "Time since the start"]));
    assert_eq!(of("searchbox")[0]["name"]["value"], "Search all spans");
    assert!(of("button").iter().all(|it| it["name"]["value"] != ""));
    page.was_quiet();
}

#[test]
fn several_startups_are_sections_with_links() {
    let later: Vec<_> = startup()
        .into_iter()
        .map(|mut span| {
            span["traceId"] = json!("2459932a52cac21e3ad6396c543dc573");
            span
        })
        .collect();
    let mut page = Page::sized(&[&startup(), &later], 1280, 800);
    assert_eq!(page.browser.text("document.querySelector('h1').textContent"), "2 startups");
    assert_eq!(page.browser.eval("document.querySelectorAll('[role=treegrid]').length"), 2);
    page.click("nav li:nth-child(2) a");
    let top = "Math.round(document.querySelector('#startup-2').getBoundingClientRect().top)";
    assert!(page.browser.eval(top).as_i64().unwrap() < 200);
    page.browser.press("/");
    page.browser.type_in("uv venv");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 2: uv venv, 270 ms");
    page.was_quiet();
}

#[test]
fn an_axis_has_round_times() {
    const HOUR: u64 = 3_600_000;
    let lengths = [(5, 5), (0, 3), (0, 700), (0, 90_000), (0, 2 * HOUR), (0, 100 * HOUR)];
    let startups = (1..).zip(lengths).map(|(number, (from, to))| {
        let mut span = span(1, 0, "gym.startup", from, to);
        span["traceId"] = json!(format!("{number:032x}"));
        [span]
    });
    let startups: Vec<_> = startups.collect();
    let startups: Vec<&[Value]> = startups.iter().map(|spans| &spans[..]).collect();
    let mut page = Page::sized(&startups, 1280, 800);
    let axes = "[...document.querySelectorAll('.axis')].map(axis =>
        [...axis.children].map(it => it.textContent).join(', ')).join('\\n')";
    assert_snapshot!(page.browser.text(axes), @r"
    0 s
    0 s, 0.5 ms, 1.0 ms, 1.5 ms, 2.0 ms, 2.5 ms, 3.0 ms
    0 s, 100 ms, 200 ms, 300 ms, 400 ms, 500 ms, 600 ms, 700 ms
    0 s, 20 s, 40 s, 1m 00s, 1m 20s
    0 s, 20m 00s, 40m 00s, 1h 00m, 1h 20m, 1h 40m, 2h 00m
    0 s, 24h 00m, 48h 00m, 72h 00m, 96h 00m
    ");
    page.was_quiet();
}

#[test]
fn it_is_usable_on_a_small_screen_and_looked_at_on_all() {
    let mut page = Page::of(&startup());
    for scheme in ["light", "dark"] {
        prefer(&mut page, scheme);
        screenshot(&mut page, scheme);
    }
    page.browser.eval("document.querySelectorAll('.failed.row')[1].click()");
    screenshot(&mut page, "details");
    page.press(&["Escape"]);
    prefer(&mut page, "light");
    for width in [400, 360] {
        page.browser.resize(width, 800);
        page.browser.settle();
        let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(page.browser.eval(wide), false);
        let bar = "document.querySelector('.row .time').getBoundingClientRect().width";
        assert!(page.browser.eval(bar).as_f64().unwrap() >= 80.0);
        assert_eq!(page.axis(), "0 s, 10 s");
    }
    page.browser.resize(400, 800);
    screenshot(&mut page, "small");
    page.was_quiet();
}

fn screenshot(page: &mut Page, name: &str) {
    page.browser.settle();
    let shot = page.browser.call("Page.captureScreenshot", json!({"format": "png"}));
    let png = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    fs::write(screenshots().join(format!("page-{name}.png")), png).unwrap();
}

#[test]
fn without_scripts_it_says_what_it_needs() {
    let mut page = Page::of(&startup());
    page.browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    page.browser.call("Page.reload", json!({}));
    page.browser
        .wait_until("document.body?.innerText.includes('drawing them needs JavaScript') ?? false");
    page.was_quiet();
}
