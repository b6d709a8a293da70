// SPDX-License-Identifier: Apache-2.0
//! Many short connections, one after another: `shorts PORT COUNT` prints `pid port sent received closer how` for each.
use std::env;
use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::process;

fn one(port: u16, turn: usize) -> Result<()> {
    let (path, closer) = if turn % 2 == 0 { ("/keep", "local") } else { ("/close", "remote") };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let message = format!("GET {}?{} HTTP/1.1\r\nHost: t\r\n\r\n", path, "x".repeat(turn % 50));
    stream.write_all(message.as_bytes())?;
    let mut received = Vec::new();
    let mut buffer = [0u8; 4096];
    while closer == "remote" || !received.ends_with(b"END\n") {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        received.extend_from_slice(&buffer[..count]);
    }
    let local = stream.local_addr()?.port();
    drop(stream);
    println!("{} {} {} {} {} fin", process::id(), local, message.len(), received.len(), closer);
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = env::args().collect();
    let port: u16 = words[1].parse().expect("a port");
    let count: usize = words[2].parse().expect("a count");
    for turn in 0..count {
        one(port, turn)?;
    }
    Ok(())
}
