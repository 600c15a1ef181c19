"""Questions and passages that answer them, to measure how near an embedder puts texts that belong together, and others.

An embedder's cosines mean nothing by themselves: unrelated texts have 0.1 with one model and 0.7 with another
(`similarity_scale.py`).
"""

ENGLISH_PROBES = (
    (
        "How do bees find their way back to the hive?",
        (
            "Foraging bees remember landmarks around the hive and use the position of the sun as a compass. Even when clouds cover "
            "the sun, they read its direction from the polarisation of the sky."
        ),
    ),
    (
        "Why was the bridge closed to trucks?",
        (
            "After inspectors found cracks in two of the supporting beams, the city banned vehicles over seven tonnes from crossing "
            "the river there until the steel has been replaced."
        ),
    ),
    (
        "How long does a backup of the database take?",
        (
            "The nightly dump starts at two o'clock and is usually complete after forty minutes. It is then copied to the second "
            "data centre and kept for thirty days."
        ),
    ),
    (
        "What causes bread dough to rise?",
        (
            "Yeast ferments the sugars in the flour and releases carbon dioxide. The gas is caught in the elastic network of gluten, "
            "and the loaf grows until the heat of the oven sets its crumb."
        ),
    ),
    (
        "Who composed the opera about the flying Dutchman?",
        (
            "Richard Wagner wrote words and music himself, after a stormy crossing from Riga to London. The work was first performed "
            "in Dresden in 1843."
        ),
    ),
    (
        "Does smoking increase the risk of a stroke?",
        (
            "In a cohort of 12,000 adults, current smokers had twice as many cerebral infarctions as people who had never smoked; the "
            "difference was gone ten years after they stopped."
        ),
    ),
    (
        "How can I return a product that I bought online?",
        (
            "Goods can be sent back within fourteen days of delivery. Fill in the form in your account, print the label and take the "
            "parcel to any post office; we refund the price within a week."
        ),
    ),
    (
        "What is the boundary layer on a wing?",
        (
            "Close to the surface of an aerofoil the air is slowed by friction. This thin region of viscous flow can be laminar or "
            "turbulent, and where it separates the lift is lost."
        ),
    ),
)
CHINESE_PROBES = (
    (
        "蜜蜂是怎么找到回巢的路的？",
        "外出采蜜的蜜蜂会记住蜂巢周围的地标，并以太阳的位置作为罗盘。即使乌云遮住太阳，它们也能从天空的偏振光判断方向。",
    ),
    (
        "为什么这座桥禁止卡车通行？",
        "检查人员在两根承重梁上发现了裂缝，因此在更换钢梁之前，市政府禁止七吨以上的车辆从那里过河。",
    ),
    (
        "备份一次数据库需要多长时间？",
        "每晚的转储从两点开始，通常四十分钟后完成，然后复制到第二个数据中心并保存三十天。",
    ),
    (
        "面团为什么会发起来？",
        "酵母使面粉中的糖发酵并放出二氧化碳，气体被面筋的弹性网络包住，面包不断膨胀，直到烤箱的热量使它定型。",
    ),
    (
        "《漂泊的荷兰人》这部歌剧是谁写的？",
        "理查德·瓦格纳从里加乘船前往伦敦，途中遇到风暴，后来亲自写下了剧本和音乐。该剧于1843年在德累斯顿首演。",
    ),
    (
        "吸烟会增加中风的风险吗？",
        "在一万二千名成年人的队列中，吸烟者发生脑梗死的人数是从不吸烟者的两倍；戒烟十年后，这一差别消失了。",
    ),
    (
        "网上买的商品怎么退货？",
        "商品可在收货后十四天内退回。请在账户中填写表格，打印标签，把包裹交到任意邮局，我们会在一周内退款。",
    ),
    (
        "机翼上的边界层是什么？",
        "靠近翼型表面的空气因摩擦而减速，这一薄层粘性流动可以是层流或湍流，一旦分离，升力就会消失。",
    ),
)
