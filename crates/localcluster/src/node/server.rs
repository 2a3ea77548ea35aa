//! What a kubelet serves: logs of containers and commands in them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures::future::{Either, OptionFuture};
use futures::stream::SplitStream;
use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Machine;
use super::exec::{Exec, Session, Terminal};
use super::folder::Folder;
use super::logs::{self, Wanted};

/// What kubectl speaks, best first. With the fifth a client can end its input.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The first byte of a message says what it is.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// How long it may take to learn of all pods.
const LISTING: Duration = Duration::from_secs(10);

/// The most that is sent at a time.
const CHUNK: usize = 8 << 10;

/// Logs and commands of the containers of a machine.
pub(super) fn router(machine: Arc<Machine>) -> Router {
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log))
        .route("/exec/{namespace}/{pod}/{container}", any(exec))
        .route("/attach/{namespace}/{pod}/{container}", any(attach))
        .with_state(machine)
}

type Place = Path<(String, String, String)>;

async fn folder(machine: &Machine, namespace: &str, pod: &str) -> Result<Folder, Response> {
    let mut listed = machine.listed.subscribe();
    // Right after a start, what an earlier life left is not known yet.
    let _ = timeout(LISTING, listed.wait_for(|listed| *listed)).await;
    let found = machine.uid_of(namespace, pod);
    let found = found.map(|uid| Folder::of(&machine.dir, &uid));
    found.ok_or_else(|| {
        refuse(
            StatusCode::NOT_FOUND,
            &format!("pod {pod:?} is not on a node here"),
        )
    })
}

fn refuse(code: StatusCode, why: &str) -> Response {
    (code, format!("{why}\n")).into_response()
}

async fn log(
    State(machine): State<Arc<Machine>>,
    Path((namespace, pod, container)): Place,
    Query(wanted): Query<Wanted>,
) -> Response {
    let folder = match folder(&machine, &namespace, &pod).await {
        Ok(folder) => folder,
        Err(refusal) => return refusal,
    };
    let mut attempts = folder.attempts(&container);
    attempts.retain(|attempt| attempt.join(crate::shim::RUN).exists());
    let last = attempts.pop();
    let attempt = match wanted.previous {
        true => attempts.pop(),
        false => last,
    };
    let Some(attempt) = attempt else {
        let which = format!("container {container:?} in pod {pod:?}");
        let why = match wanted.previous {
            true => format!("previous terminated {which} not found"),
            false => format!("{which} is waiting to start"),
        };
        return refuse(StatusCode::BAD_REQUEST, &why);
    };
    match logs::read(&attempt, wanted) {
        Ok(lines) => {
            let body = Body::from_stream(lines);
            ([("content-type", "text/plain")], body).into_response()
        }
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn attach() -> Response {
    let why = "attach is not known here; use kubectl logs -f, or kubectl exec";
    refuse(StatusCode::NOT_IMPLEMENTED, why)
}

async fn exec(
    State(machine): State<Arc<Machine>>,
    Path((namespace, pod, container)): Place,
    RawQuery(query): RawQuery,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response {
    let folder = match folder(&machine, &namespace, &pod).await {
        Ok(folder) => folder,
        Err(refusal) => return refusal,
    };
    let exec = wish(query.as_deref().unwrap_or_default());
    if exec.command.is_empty() {
        let why = "you must specify at least 1 command for the container";
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    // Before the way of asking: a client that is refused tries another, and would be told
    // only that this one won't do.
    let started = folder.started(&container);
    if started.is_none_or(|started| started.first.open().is_none()) {
        let why = format!("container {container:?} of pod {pod:?} does not run");
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
    }
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade.protocols(PROTOCOLS),
        Err(_) => {
            let why = "commands are run over WebSocket only; kubectl does so since 1.31";
            return refuse(StatusCode::BAD_REQUEST, why);
        }
    };
    let session = match Session::start(&folder, &container, &exec).await {
        Ok(session) => session,
        Err(error) => {
            let why = format!("container {container:?} of pod {pod:?}: {error}");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
        }
    };
    upgrade.on_upgrade(|socket| serve(socket, session))
}

/// A command may be in the query many times, once for each word.
fn wish(query: &str) -> Exec {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let mut exec = Exec::default();
    for (name, value) in pairs {
        let is_set = matches!(&*value, "1" | "true");
        match &*name {
            "command" => exec.command.push(value.into_owned()),
            "input" => exec.stdin = is_set,
            "tty" => exec.terminal = is_set,
            _ => {}
        }
    }
    exec
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

/// Carries everything between a client and a process until it ends.
async fn serve(socket: WebSocket, mut session: Session) {
    let (mut to_client, from_client) = socket.split();
    let (sender, mut messages) = mpsc::channel::<Vec<u8>>(16);
    let stdin = session.child.stdin.take();
    let out = session
        .child
        .stdout
        .take()
        .map(|out| copy(out, STDOUT, sender.clone()));
    let err = session
        .child
        .stderr
        .take()
        .map(|err| copy(err, STDERR, sender.clone()));
    let terminal = session.terminal.take();
    let screen = terminal
        .as_ref()
        .map(|terminal| show(terminal, sender.clone()));
    let process = async {
        let [out, err] = [out.map(Either::Left), err.map(Either::Right)].map(OptionFuture::from);
        let end = session.child.wait();
        let (end, ..) = tokio::join!(end, out, err, OptionFuture::from(screen));
        let code = end.ok().and_then(|status| status.code()).unwrap_or(255);
        // All that it said was sent before, and nothing is sent behind it.
        let verdict = framed(ERROR, verdict(code).to_string().as_bytes());
        let _ = sender.send(verdict).await;
        drop(sender);
    };
    let client = async {
        while let Some(message) = messages.recv().await {
            if to_client
                .send(Message::Binary(message.into()))
                .await
                .is_err()
            {
                return;
            }
        }
        let goodbye = CloseFrame {
            code: close_code::NORMAL,
            reason: Utf8Bytes::default(),
        };
        let _ = to_client.send(Message::Close(Some(goodbye))).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(process, client) } => {}
        // The client is gone: so is whom it talked to.
        () = listen(from_client, stdin, terminal.as_ref()) => {}
    }
}

/// Does what the client says, until it leaves.
async fn listen(
    mut client: SplitStream<WebSocket>,
    mut stdin: Option<ChildStdin>,
    terminal: Option<&Terminal>,
) {
    while let Some(Ok(message)) = client.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            _ => continue,
        };
        match (bytes.first(), bytes.get(1..).unwrap_or_default()) {
            (Some(&STDIN), bytes) => match (terminal, &mut stdin) {
                (Some(terminal), _) => drop(terminal.write(bytes).await),
                (None, Some(pipe)) => {
                    if pipe.write_all(bytes).await.is_err() {
                        stdin = None;
                    }
                }
                (None, None) => {}
            },
            (Some(&RESIZE), bytes) => {
                let size = serde_json::from_slice::<Size>(bytes);
                if let (Some(terminal), Ok(size)) = (terminal, size) {
                    let _: io::Result<()> = terminal.resize(size.width, size.height);
                }
            }
            (Some(&CLOSE), [STDIN]) => stdin = None,
            _ => {}
        }
    }
}

/// Sends what is written on a terminal.
async fn show(terminal: &Terminal, to: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = terminal.read(&mut buffer).await;
        let Some(bytes @ [_, ..]) = buffer.get(..length) else {
            return;
        };
        if to.send(framed(STDOUT, bytes)).await.is_err() {
            return;
        }
    }
}

fn framed(channel: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    message
}

async fn copy(mut from: impl tokio::io::AsyncRead + Unpin, channel: u8, to: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                if to.send(framed(channel, bytes)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// How a command ended, as clients want to be told.
fn verdict(code: i32) -> serde_json::Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}
