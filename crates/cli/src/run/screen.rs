//! What the user sees: logs on the standard output, everything else on the error output.
//! If that is a terminal, there is a line for each object at its bottom that changes in place.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use console::{Color, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::view::{self, Shown};

/// How often the wheel turns.
const TURN: Duration = Duration::from_millis(120);
/// A line at the bottom, of what nobody knows how far it is, and of what somebody does.
const WHEEL: &str = "{spinner:.cyan} {prefix:.bold} {wide_msg} {elapsed:.dim}";
const BAR: &str =
    "{spinner:.cyan} {prefix:.bold} [{bar:24.cyan}] {percent:>3}% {wide_msg} {elapsed:.dim}";
/// Whose line a line is; one after the other.
const COLOURS: [Color; 5] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Blue,
];

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Who said it: the index of [`Screen::introduce`].
    pub(crate) speaker: usize,
    pub(crate) line: String,
}

/// Where it is shown.
pub(crate) struct Screen {
    /// None: it is no terminal.
    bars: Option<MultiProgress>,
    followed: Vec<Followed>,
    speakers: Vec<String>,
    /// Whoever read the logs has gone.
    is_deserted: bool,
}

struct Followed {
    title: String,
    shown: Shown,
    bar: Option<ProgressBar>,
}

impl Screen {
    pub(crate) fn new() -> Screen {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Screen {
            bars: is_terminal.then(MultiProgress::new),
            followed: Vec::new(),
            speakers: Vec::new(),
            is_deserted: false,
        }
    }

    /// Shows how far something is, from now on, in the line that is returned.
    pub(crate) fn add_line(&mut self, title: &str) -> usize {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new(100));
            set_style(&bar, WHEEL);
            bar.set_prefix(title.to_owned());
            bar.enable_steady_tick(TURN);
            bar
        });
        self.followed.push(Followed {
            title: title.to_owned(),
            shown: Shown::default(),
            bar,
        });
        self.followed.len() - 1
    }

    /// Shows how far something is.
    pub(crate) fn show(&mut self, line: usize, shown: Shown) {
        let Some(line) = self.followed.get_mut(line) else {
            return;
        };
        let before = std::mem::replace(&mut line.shown, shown);
        match &line.bar {
            Some(bar) => {
                bar.set_message(line.shown.text.clone());
                bar.set_position(line.shown.percent.unwrap_or_default());
                if line.shown.percent.is_some() != before.percent.is_some() {
                    let style = line.shown.percent.map_or(WHEEL, |_| BAR);
                    set_style(bar, style);
                }
            }
            None if line.shown.news != before.news => {
                let words = format!("{}: {}", line.title, line.shown.plain());
                self.say(&words);
            }
            None => {}
        }
    }

    /// Somebody whose logs are going to be shown.
    pub(crate) fn introduce(&mut self, speaker: &str) -> usize {
        let known = self.speakers.iter().position(|known| known == speaker);
        known.unwrap_or_else(|| {
            self.speakers.push(speaker.to_owned());
            self.speakers.len() - 1
        })
    }

    /// Shows lines of logs.
    pub(crate) fn logs(&mut self, lines: &[Said]) {
        if self.is_deserted || lines.is_empty() {
            return;
        }
        // On paper, columns would only be in the way of who searches.
        let widest = self.speakers.iter().map(String::len).max();
        let width = widest.filter(|_| self.bars.is_some()).unwrap_or(0);
        let mut text = String::new();
        for said in lines {
            let speaker = self.speakers.get(said.speaker).map_or("", String::as_str);
            let colour = COLOURS.get(said.speaker % COLOURS.len());
            let style = colour.map_or_else(Style::new, |colour| Style::new().fg(*colour));
            let prefix = style.apply_to(format!("{speaker:width$} |"));
            text.push_str(&format!("{prefix} {}\n", view::plain(&said.line)));
        }
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
        let written = match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        };
        // The job goes on all the same.
        self.is_deserted = written.is_err();
    }

    /// Says something to the user.
    pub(crate) fn say(&self, text: &str) {
        let write = || {
            // Who closed it does not want to hear.
            let _: io::Result<()> = writeln!(io::stderr().lock(), "{text}");
        };
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Leaves only what was said.
    pub(crate) fn close(&mut self) {
        for bar in self.followed.iter().filter_map(|line| line.bar.as_ref()) {
            bar.finish_and_clear();
        }
    }
}

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}
