//! What both APIs are asked, in order: later requests meet what earlier ones made.

use super::request::Request;

mod built_in;
mod custom;
mod deletion;
mod discovery;
mod lists;
mod objects;
mod patches;
mod pods;
mod tables;
mod watches;

pub fn all() -> Vec<Request> {
    [
        discovery::all(),
        objects::all(),
        patches::all(),
        lists::all(),
        watches::all(),
        pods::all(),
        built_in::all(),
        custom::all(),
        tables::all(),
        deletion::all(),
    ]
    .concat()
}
