-- Crawls of web sites.

-- owner: catalog
-- The last crawl of a web site. While it is running, its pages say how far it is: whoever continues it needs nothing else.
create table site_crawl (
    site_id         uuid primary key references item on delete cascade,
    number          int not null default 1,     -- of the crawl, counted from 1
    version         int not null,               -- the version of the item that it lists; 0: a check by schedule
    is_running      boolean not null default true,
    is_seeded       boolean not null default false, -- the site's sitemaps are read
    is_complete     boolean not null default true, -- nothing kept it from seeing all pages
    sites           text[] not null,            -- host names that belong to the site, without `www.`
    requests        int not null default 0,
    pages           int not null default 0,     -- that were found so far
    addresses       int not null default 0,     -- that were met so far
    left_out        jsonb not null default '{}', -- at its end, as {reason: number}
    started_at      timestamptz not null default clock_now(),
    finished_at     timestamptz
);

-- owner: catalog
-- Addresses that the crawls of a site met. One whose `fetched` is below `number` waits for the crawl of that number.
create table crawl_page (
    site_id         uuid not null references item on delete cascade,
    url             text not null,
    number          int not null,               -- the last crawl that met it: by a link, in a sitemap, or as the start page
    fetched         int not null default 0,     -- the last crawl that fetched it, or decided not to
    depth           int not null,               -- links from the start page
    state           text not null default 'new' check (state in ('new', 'page', 'alias', 'left_out', 'gone')),
    reason          text,                       -- why it is left out
    target          text,                       -- of an alias: where it redirects to, or its canonical page
    keeps_address   boolean not null default false, -- its canonical page can't be had: it is filed under its own address
    attempts        int not null default 0,     -- of this crawl that failed
    links           text[] not null default '{}', -- as it was last read
    validators      jsonb not null default '{}', -- for conditional requests
    digest          bytea,                      -- of the bytes as last fetched
    path            text not null generated always as (split_part(url, '?', 1)) stored,
    primary key (site_id, url)
);
create index crawl_page_waiting on crawl_page (site_id, number, attempts, depth) where fetched < number;
create index crawl_page_path on crawl_page (site_id, path) where strpos(url, '?') > 0;

-- owner: catalog
-- Hosts that are crawled: when the next request to each may be sent, by whichever process.
create table web_host (
    host            text primary key,
    delay           interval not null,          -- between two requests
    next_at         timestamptz not null default clock_now()
);
