//! `paddle-operator wait`: the init container `coord-paddle`. It learns of the
//! peers from the same variables as Paddle does.

mod awaited;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{StreamExt, stream};
use tokio::net::{TcpStream, lookup_host};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use awaited::{Awaited, Got};

/// How long names may be missing once our own and those of the parameter
/// servers resolve: a peer that has finished has no address any more.
const NAMES_PATIENCE: Duration = Duration::from_secs(120);
/// How long a parameter server that answers may refuse connections: some jobs
/// have servers that never listen.
const SERVERS_PATIENCE: Duration = Duration::from_secs(60);
/// When DNS is asked first. Some servers remember for 5 s, or 30 s, that a name was missing,
/// and no kubelet tells the address of a pod much sooner than this.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How soon is looked again.
const PAUSE: Duration = Duration::from_millis(250);
/// How soon names are asked for again that are missing for long: every pod of the
/// job asks for those of all others.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How many names are asked for at once; each takes a thread.
const LOOKUPS: usize = 16;
/// A lookup may take so many pauses, and is begun again then: where two packets of it meet in
/// the kernel one of them is lost at times, and a resolver waits 5 s for it.
const PAUSES_PER_LOOKUP: u32 = 4;
/// A server that takes longer to answer does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The exit code of who was told to end, as shells have it.
const TERMINATED: i32 = 128 + 15;

/// What to wait for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Wait until the names of all peers resolve
    #[arg(long)]
    names: bool,
    /// Wait until every parameter server accepts connections
    #[arg(long)]
    servers: bool,
    /// Our own address
    #[arg(long, env = "POD_IP", default_value = "")]
    own: String,
    /// Endpoints of the parameter servers
    #[arg(long, env = "PADDLE_PSERVERS_IP_PORT_LIST", value_delimiter = ',')]
    server_endpoints: Vec<String>,
    /// Wait until every heter trainer accepts connections too
    #[arg(long)]
    heters: bool,
    /// Endpoints of the heter trainers
    #[arg(
        long,
        env = "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
        value_delimiter = ','
    )]
    heter_endpoints: Vec<String>,
    /// Where the first parameter server meets its peers before it serves
    #[arg(long, env = "PADDLE_GLOO_HTTP_ENDPOINT", default_value = "")]
    meeting: String,
    /// Endpoints of the workers
    #[arg(long, env = "PADDLE_TRAINER_ENDPOINTS", value_delimiter = ',')]
    worker_endpoints: Vec<String>,
}

/// What a parameter server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Accepts,
    Refuses,
    Nothing,
}

impl Answer {
    fn got(self) -> Option<Got> {
        match self {
            Answer::Accepts => None,
            Answer::Refuses => Some(Got::Refused),
            Answer::Nothing => Some(Got::NoAnswer),
        }
    }
}

/// Waits, and says what is missing when it goes on without it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let waited = runtime.block_on(async {
        // The first process of a container is not ended by a signal that it does not take.
        let mut terminate = signal(SignalKind::terminate())?;
        let awaited = Awaited::default();
        tokio::select! {
            () = wait(args, &awaited) => Ok(()),
            // In the middle of a round too: without DNS one can take minutes.
            never = awaited.tell() => match never {},
            _ = terminate.recv() => {
                say("stopped while waiting");
                std::process::exit(TERMINATED);
            }
        }
    });
    // Nobody waits for lookups that were given up.
    runtime.shutdown_background();
    waited
}

async fn wait(args: &Args, awaited: &Awaited) {
    let start = Instant::now();
    if args.names {
        for name in names(args, awaited).await {
            say(&format!("{name} does not resolve; going on without it"));
        }
    }
    if args.servers {
        for server in servers(&args.server_endpoints, &args.meeting, start, awaited).await {
            say(&format!(
                "parameter server {server} does not accept connections; going on"
            ));
        }
    }
    if args.heters {
        for heter in servers(&args.heter_endpoints, "", Instant::now(), awaited).await {
            say(&format!(
                "heter trainer {heter} does not accept connections; going on"
            ));
        }
    }
}

/// Waits for names; returns those that are missing in the end.
async fn names(args: &Args, awaited: &Awaited) -> Vec<String> {
    let host = |endpoint: &String| Some(endpoint.rsplit_once(':')?.0.to_owned());
    let own = Some(&args.own).filter(|own| !own.is_empty()).cloned();
    let essential: BTreeSet<String> = args
        .server_endpoints
        .iter()
        .filter_map(host)
        .chain(own)
        .collect();
    let peers = args.worker_endpoints.iter().chain(&args.heter_endpoints);
    let mut missing: BTreeSet<String> = peers.filter_map(host).collect();
    missing.extend(essential.iter().cloned());
    let unknown = Got::NoAddress("no answer yet".to_owned());
    awaited.set(missing.iter().map(|name| (name.clone(), unknown.clone())));
    if !are_in_hosts(&missing) {
        sleep(FIRST_LOOK).await;
    }
    let mut essential_since = None;
    let mut pause = PAUSE;
    loop {
        let asked = stream::iter(missing).map(|name| async move {
            let got = resolve(&name, pause * PAUSES_PER_LOOKUP).await.err();
            awaited.note(&name, got.clone());
            got.is_some().then_some(name)
        });
        let answers: Vec<_> = asked.buffer_unordered(LOOKUPS).collect().await;
        missing = answers.into_iter().flatten().collect();
        if missing.is_disjoint(&essential) {
            essential_since.get_or_insert_with(Instant::now);
        }
        if missing.is_empty()
            || essential_since.is_some_and(|since| since.elapsed() >= NAMES_PATIENCE)
        {
            return missing.into_iter().collect();
        }
        sleep(pause).await;
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
}

async fn resolve(name: &str, patience: Duration) -> Result<(), Got> {
    let first = async { lookup_host((name, 0)).await.map(|mut found| found.next()) };
    let said = match timeout(patience, first).await {
        Ok(Ok(Some(_))) => return Ok(()),
        Ok(Ok(None)) => "none found".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "DNS does not answer".to_owned(),
    };
    // Before it stands what was tried.
    let said = said.rsplit(": ").next().unwrap_or_default();
    Err(Got::NoAddress(said.to_owned()))
}

/// Whether nobody has to be asked, as on one machine.
fn are_in_hosts(names: &BTreeSet<String>) -> bool {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let known: BTreeSet<&str> = hosts.split_whitespace().collect();
    names.iter().all(|name| known.contains(name.as_str()))
}

/// Waits for parameter servers; returns those that refuse in the end.
///
/// With gloo the first of them serves only after it has met the workers: then it is
/// enough that it waits for them.
async fn servers(
    endpoints: &[String],
    meeting: &str,
    start: Instant,
    awaited: &Awaited,
) -> Vec<String> {
    let host = |endpoint: &str| Some(endpoint.rsplit_once(':')?.0.to_owned());
    let meets = |endpoint: &str| !meeting.is_empty() && host(endpoint) == host(meeting);
    // What was waited for before is not any more.
    awaited.set([]);
    loop {
        let asked = endpoints.iter().map(|endpoint| async {
            match ask(endpoint).await {
                Answer::Refuses if meets(endpoint) => ask(meeting).await,
                answer => answer,
            }
        });
        let answers = join_all(asked).await;
        let both = endpoints.iter().cloned().zip(&answers);
        awaited.set(both.filter_map(|(endpoint, answer)| Some((endpoint, answer.got()?))));
        if is_enough(&answers, start.elapsed()) {
            let refusing = endpoints
                .iter()
                .zip(answers)
                .filter(|(_, answer)| *answer != Answer::Accepts);
            return refusing.map(|(endpoint, _)| endpoint.clone()).collect();
        }
        sleep(PAUSE).await;
    }
}

fn is_enough(answers: &[Answer], waited: Duration) -> bool {
    let all_accept = answers.iter().all(|answer| *answer == Answer::Accepts);
    let all_answer = answers.iter().all(|answer| *answer != Answer::Nothing);
    all_accept || (all_answer && waited >= SERVERS_PATIENCE)
}

async fn ask(endpoint: &str) -> Answer {
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(endpoint)).await {
        Ok(Ok(_)) => Answer::Accepts,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Answer::Refuses,
        Ok(Err(_)) | Err(_) => Answer::Nothing,
    }
}

/// What users look for in the log of the init container.
fn say(line: &str) {
    // A log that can't be written is no reason to keep the job from starting.
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn when_waiting_is_over() {
        use Answer::{Accepts, Nothing, Refuses};
        let (early, late) = (Duration::from_secs(59), Duration::from_secs(60));
        assert!(is_enough(&[Accepts, Accepts], Duration::ZERO));
        assert!(!is_enough(&[Accepts, Refuses], early));
        assert!(is_enough(&[Accepts, Refuses], late));
        assert!(
            !is_enough(&[Accepts, Nothing], late * 100),
            "a server that does not answer is waited for"
        );
    }

    #[tokio::test]
    async fn a_server_that_listens_accepts_and_one_that_does_not_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        assert_eq!(ask(&endpoint).await, Answer::Accepts);
        drop(listener);
        assert_eq!(ask(&endpoint).await, Answer::Refuses);
    }

    #[tokio::test]
    async fn waits_until_the_last_server_listens() {
        let (first, second) = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        let endpoints = [&first, &second].map(|l| l.local_addr().unwrap().to_string());
        let address = second.local_addr().unwrap();
        drop(second);
        let awaited = Awaited::default();
        let waiting = servers(&endpoints, "", Instant::now(), &awaited);
        let listening = async {
            assert_eq!(ask(&endpoints[1]).await, Answer::Refuses);
            TcpListener::bind(address).unwrap()
        };
        let (missing, _listener) = tokio::join!(waiting, listening);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_server_that_meets_the_workers_first_is_not_waited_for() {
        let meeting = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let [meeting_at, server] = [&meeting, &closed].map(|l| l.local_addr().unwrap().to_string());
        drop(closed);
        assert_eq!(ask(&server).await, Answer::Refuses);
        let awaited = Awaited::default();
        let missing = servers(&[server], &meeting_at, Instant::now(), &awaited).await;
        assert_eq!(missing, Vec::<String>::new());
    }

    #[tokio::test]
    async fn names_that_resolve_are_not_missing() {
        let args = Args {
            names: true,
            servers: false,
            heters: false,
            own: "localhost".to_owned(),
            meeting: String::new(),
            server_endpoints: vec!["localhost:1".to_owned()],
            heter_endpoints: Vec::new(),
            worker_endpoints: vec!["localhost:1".to_owned(), "localhost:2".to_owned()],
        };
        assert_eq!(
            names(&args, &Awaited::default()).await,
            Vec::<String>::new()
        );
    }
}
