//! Whether a container has started, takes requests, and is alive.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerPort, ContainerStatus, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// More of an answer is not read.
const LONGEST_ANSWER: usize = 10 << 10;

/// What the probes of a running container say.
#[derive(Debug, Default)]
pub struct Verdict {
    /// It takes requests.
    pub is_ready: AtomicBool,
    /// It has started.
    pub has_started: AtomicBool,
}

impl Verdict {
    /// Before the first probe: without one, a container that runs is well; with one, it
    /// is as it was when it was last told.
    pub fn of(container: &Container, told: Option<&ContainerStatus>) -> Verdict {
        let was_ready = told.is_some_and(|told| told.ready);
        let had_started = told.is_some_and(|told| told.started == Some(true));
        let has_started = container.startup_probe.is_none() || had_started;
        let is_ready = match container.readiness_probe {
            Some(_) => was_ready,
            None => has_started,
        };
        Verdict {
            is_ready: is_ready.into(),
            has_started: has_started.into(),
        }
    }
}

/// How a command in the container ended: well, or with these words.
pub type Outcome = Result<(), String>;

/// Runs commands in the container and ends it.
pub trait Handle: Send + Sync + 'static {
    /// Runs a command.
    fn run(&self, command: Vec<String>) -> impl Future<Output = Outcome> + Send;
    /// A probe failed for so long that the container is to end.
    fn kill(&self, probe: &str, why: &str);
    /// A probe failed.
    fn complain(&self, probe: &str, why: &str) -> impl Future<Output = ()> + Send;
}

/// Probes a container until dropped; `changed` is told of every change.
pub async fn watch(
    container: Container,
    address: Ipv4Addr,
    verdict: Arc<Verdict>,
    changed: Arc<Notify>,
    handle: impl Handle,
) {
    let prober = Prober {
        address,
        ports: container.ports.unwrap_or_default(),
        handle,
    };
    let set = |what: &AtomicBool, to: bool| {
        if what.swap(to, Ordering::Relaxed) != to {
            changed.notify_one();
        }
    };
    if let Some(probe) = &container.startup_probe
        && !verdict.has_started.load(Ordering::Relaxed)
        && !prober.until_it_fails("Startup", probe, true).await
    {
        return;
    }
    set(&verdict.has_started, true);
    let ready = async {
        match &container.readiness_probe {
            None => set(&verdict.is_ready, true),
            Some(probe) => {
                let mut last = Streak::default();
                prober.start(probe).await;
                loop {
                    let outcome = prober.probe(probe).await;
                    if let Err(why) = &outcome {
                        prober.handle.complain("Readiness", why).await;
                    }
                    if let Some(is_ready) = last.count(outcome.is_ok(), probe) {
                        set(&verdict.is_ready, is_ready);
                    }
                    sleep(period(probe)).await;
                }
            }
        }
    };
    let alive = async {
        if let Some(probe) = &container.liveness_probe {
            prober.until_it_fails("Liveness", probe, false).await;
        }
    };
    tokio::join!(ready, alive);
}

#[derive(Debug, Default)]
struct Streak {
    is_well: bool,
    length: i32,
}

impl Streak {
    /// Counts an outcome; says what it has come to when it lasts long enough.
    fn count(&mut self, is_well: bool, probe: &Probe) -> Option<bool> {
        match self.is_well == is_well {
            true => self.length = self.length.saturating_add(1),
            false => *self = Streak { is_well, length: 1 },
        }
        let enough = match is_well {
            true => probe.success_threshold.unwrap_or(1),
            false => probe.failure_threshold.unwrap_or(3),
        };
        (self.length >= enough.max(1)).then_some(is_well)
    }
}

struct Prober<H> {
    address: Ipv4Addr,
    ports: Vec<ContainerPort>,
    handle: H,
}

impl<H: Handle> Prober<H> {
    async fn start(&self, probe: &Probe) {
        sleep(seconds(probe.initial_delay_seconds, 0)).await;
    }

    /// Probes until it fails for too long, which ends the container, or until once is
    /// enough. Says whether it did well.
    async fn until_it_fails(&self, name: &str, probe: &Probe, once: bool) -> bool {
        self.start(probe).await;
        let mut last = Streak::default();
        loop {
            let begun = Instant::now();
            let outcome = self.probe(probe).await;
            let why = outcome.as_ref().err().cloned().unwrap_or_default();
            if outcome.is_err() {
                self.handle.complain(name, &why).await;
            }
            match last.count(outcome.is_ok(), probe) {
                Some(true) if once => return true,
                Some(false) => {
                    self.handle.kill(name, &why);
                    return false;
                }
                _ => {}
            }
            sleep_until(begun + period(probe)).await;
        }
    }

    async fn probe(&self, probe: &Probe) -> Outcome {
        let limit = seconds(probe.timeout_seconds, 1);
        let outcome = timeout(limit, self.ask(probe)).await;
        outcome.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())))
    }

    async fn ask(&self, probe: &Probe) -> Outcome {
        if let Some(exec) = &probe.exec {
            return self
                .handle
                .run(exec.command.clone().unwrap_or_default())
                .await;
        }
        if let Some(http) = &probe.http_get {
            if http.scheme.as_deref() == Some("HTTPS") {
                return Err("httpGet with scheme HTTPS is not known here".to_owned());
            }
            let host = http
                .host
                .clone()
                .unwrap_or_else(|| self.address.to_string());
            let port = self.port(&http.port)?;
            let path = http.path.as_deref().unwrap_or("/");
            let headers = http.http_headers.iter().flatten();
            let headers = headers.map(|header| format!("{}: {}\r\n", header.name, header.value));
            return get(&host, port, path, &headers.collect::<String>()).await;
        }
        if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.clone().unwrap_or_else(|| self.address.to_string());
            let connected = TcpStream::connect((host.as_str(), self.port(&tcp.port)?)).await;
            return connected.map(drop).map_err(|error| error.to_string());
        }
        Err("this kind of probe is not known here; exec, httpGet and tcpSocket are".to_owned())
    }

    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(port) => Some(*port),
            IntOrString::String(name) => {
                let mut ports = self.ports.iter();
                let found = ports.find(|port| port.name.as_ref() == Some(name));
                found
                    .map(|port| port.container_port)
                    .or_else(|| name.parse().ok())
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| format!("{port:?} is no port of the container"))
    }
}

/// Asks for a page; all that counts is the code.
async fn get(host: &str, port: u16, path: &str, headers: &str) -> Outcome {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: kube-probe\r\n\
         {headers}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    let mut limited = stream.take(LONGEST_ANSWER as u64);
    while !answer.contains(&b'\n') {
        if limited.read_buf(&mut answer).await.map_err(failed)? == 0 {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..400) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("the answer is no HTTP".to_owned()),
    }
}

fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10)
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(
        given
            .and_then(|given| u64::try_from(given).ok())
            .unwrap_or(default),
    )
}
