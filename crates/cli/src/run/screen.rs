//! What the user sees: logs on the standard output, everything else on the error output.
//! If that is a terminal, there is a line for each job at its bottom that changes in place.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use console::{Color, Style};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::view::{self, Progress};

/// How often the wheel turns.
const TURN: Duration = Duration::from_millis(120);
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
    jobs: Vec<Job>,
    speakers: Vec<String>,
    /// Whoever read the logs has gone.
    is_deserted: bool,
}

struct Job {
    title: String,
    shown: Progress,
    bar: Option<ProgressBar>,
}

impl Screen {
    pub(crate) fn new() -> Screen {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Screen {
            bars: is_terminal.then(MultiProgress::new),
            jobs: Vec::new(),
            speakers: Vec::new(),
            is_deserted: false,
        }
    }

    /// Shows how far a job is, from now on.
    pub(crate) fn add_job(&mut self, title: &str) {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = "{spinner:.cyan} {prefix:.bold} {wide_msg} {elapsed:.dim}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_prefix(title.to_owned());
            bar.set_message(Progress::default().line());
            bar.enable_steady_tick(TURN);
            bar
        });
        self.jobs.push(Job {
            title: title.to_owned(),
            shown: Progress::default(),
            bar,
        });
    }

    /// Shows how far a job is.
    pub(crate) fn show(&mut self, job: usize, progress: &Progress) {
        let Some(job) = self.jobs.get_mut(job) else {
            return;
        };
        let is_news = progress.is_news(&job.shown);
        job.shown = progress.clone();
        match &job.bar {
            Some(bar) => bar.set_message(progress.line()),
            None if is_news => {
                let line = format!("{}: {}", job.title, progress.line());
                self.say(&line);
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
        for bar in self.jobs.iter().filter_map(|job| job.bar.as_ref()) {
            bar.finish_and_clear();
        }
    }
}
