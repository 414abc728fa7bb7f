//! The page of a startup, made by the built program and opened in a real browser.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::Browser;
use super::command;

const MS: u64 = 1_000_000;
/// 1 Dec 2026, 06:30:00 UTC, and some nanoseconds.
const START: u64 = 1_796_106_600_000_000_321;

/// A span as OTLP JSON has it; a parent 0 is none, an end of 0 ms is none either.
pub fn span(id: u64, parent: u64, name: &str, from_ms: u64, to_ms: u64) -> Value {
    let end = if to_ms == 0 { 0 } else { START + to_ms * MS };
    let parent = if parent == 0 { String::new() } else { format!("{parent:016x}") };
    json!({
        "traceId": "1459932a52cac21e3ad6396c543dc573", "spanId": format!("{id:016x}"),
        "parentSpanId": parent, "name": name, "kind": 1, "attributes": [], "status": {},
        "startTimeUnixNano": (START + from_ms * MS).to_string(),
        "endTimeUnixNano": end.to_string(),
    })
}

/// A span that is part of a startup by its attribute alone.
fn step(id: u64, parent: u64, name: &str, from_ms: u64, to_ms: u64) -> Value {
    span(id, parent, name, from_ms, to_ms).with("nemo.gym.startup.stage", name)
}

pub trait SpanExt {
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

pub const SERVER: &str = "nemo.gym.server.name";
pub const OUTCOME: &str = "nemo.gym.startup.outcome";

/// Three servers, one with workers, one that fails, and one that has not ended.
pub fn startup() -> Vec<Value> {
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
        step(7, 6, "uv venv", 40, 310),
        step(8, 6, "uv pip install", 330, 9_020),
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
        step(19, 17, "load weights", 2_400, 0),
        step(20, 17, "no time at all", 2_500, 2_500),
    ]
}

/// 99 servers with 100 stages each, and what is above them.
pub fn ten_thousand() -> Vec<Value> {
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
pub struct Page {
    pub browser: Browser,
    file: PathBuf,
    _folder: TempDir,
}

impl Page {
    pub fn of(spans: &[Value]) -> Self {
        Self::sized(&[spans], 1280, 800)
    }

    /// A file for each startup.
    pub fn sized(startups: &[&[Value]], width: u32, height: u32) -> Self {
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
    pub fn rows(&mut self) -> Vec<String> {
        let said = "[...document.querySelectorAll('.row')].map(row =>
            [...row.children].slice(0, 3).map(it => it.textContent).join(' | '))";
        serde_json::from_value(self.browser.eval(said)).unwrap()
    }

    /// What has the focus: the label of a row, or else its text, or its tag.
    pub fn focused(&mut self) -> String {
        self.browser.text(
            "(it => (it.querySelector('.label') ?? it).textContent || it.localName)
            (document.activeElement)",
        )
    }

    pub fn attribute(&mut self, name: &str) -> Value {
        self.browser.eval(&format!("document.activeElement.getAttribute('{name}')"))
    }

    /// What stands at the axis of the first startup.
    pub fn axis(&mut self) -> String {
        self.browser.text(
            "[...document.querySelector('.axis').children].map(it => it.textContent).join(', ')",
        )
    }

    pub fn press(&mut self, keys: &[&str]) -> String {
        keys.iter().for_each(|key| self.browser.press(key));
        self.focused()
    }

    pub fn click(&mut self, selector: &str) {
        self.browser.eval(&format!("document.querySelector('{selector}').click()"));
        self.browser.settle();
    }

    /// Has the reader prefer `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.browser.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.browser.settle();
    }

    /// What is too pale to be read.
    pub fn pale(&mut self) -> Value {
        self.browser.eval(PALE)
    }

    /// Prints to `target/screenshots/print-NAME.pdf`, and counts the pages.
    pub fn print(&mut self, name: &str) -> usize {
        let params = json!({"printBackground": false, "preferCSSPageSize": true});
        let printed = self.browser.call("Page.printToPDF", params);
        let pdf = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
        fs::write(screenshots().join(format!("print-{name}.pdf")), &pdf).unwrap();
        let text = String::from_utf8_lossy(&pdf);
        text.matches("/Type /Page\n").count()
    }

    /// Keeps what is on the screen in `target/screenshots/page-NAME.png`, to be looked at.
    pub fn screenshot(&mut self, name: &str) {
        self.browser.settle();
        let shot = self.browser.call("Page.captureScreenshot", json!({"format": "png"}));
        let png = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        fs::write(screenshots().join(format!("page-{name}.png")), png).unwrap();
    }

    /// Nothing went wrong, and nothing was asked for but the page.
    pub fn was_quiet(self) {
        for method in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
            assert_eq!(self.browser.events(method), Vec::<&Value>::new());
        }
        let requests = self.browser.events("Network.requestWillBeSent");
        let page = format!("file://{}", self.file.display());
        let urls: Vec<_> = requests.iter().map(|it| it["request"]["url"].as_str()).collect();
        assert!(urls.iter().all(|url| *url == Some(&page)) && !urls.is_empty(), "{urls:?}");
    }
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

fn screenshots() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
    fs::create_dir_all(&folder).unwrap();
    folder
}
